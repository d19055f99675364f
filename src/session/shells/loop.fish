# The loop. What is evaluated stands in a second one, so that a `break` of a command leaves that.
builtin printf '%s\0' '' 0 0 "$PWD" >@DIR@/report
while true
    while true
        set -g __cb_p
        begin
            builtin read -z -g __cb_o
            builtin read -z -g __cb_m
            builtin read -z -g __cb_d
        end <@DIR@/word
        if builtin test "$__cb_o" = exit
            exit
        end
        if builtin test -n "$__cb_d"
            if not eval builtin cd -- $__cb_d 2>/dev/null
                set -g __cb_p cd
                break
            end
        end
        builtin read -z -g __cb_t <@DIR@/file
        if builtin test "$__cb_m" = 1
            __cb_s
            eval $__cb_t 2>&1
        else
            __cb_s
            eval $__cb_t
        end
        set -g __cb_q $status
        break
    end
    if not set -q __cb_p[1]
        builtin printf '%s\0' "$__cb_o" "$__cb_q" 0 "$PWD" >@DIR@/report
        set -g __cb_l $__cb_q
    else
        builtin printf '%s\0' "$__cb_o" "$__cb_p[1]" (builtin count $__cb_p) $__cb_p "$PWD" >@DIR@/report
        if builtin test "$__cb_p[1]" != cd
            set -g __cb_l $__cb_p[1]
        end
    end
    set -g __cb_o
end
