# The driver for fish: what stands at its own prompt says nothing there, and tells the holder that
# it does. All names begin with __cb_: o the open command, t its text, m both streams to one terminal,
# d where to go, p its caught statuses, q its status if they were not caught, l the last status.
function fish_prompt
end
function fish_right_prompt
end
function fish_title
end
set -g fish_greeting
# Only a prompt's commands have job control otherwise.
status job-control full
# fish does not leave while it has jobs. The holder ends them.
function exit
    for __cb_j in (jobs -p 2>/dev/null)
        disown $__cb_j 2>/dev/null
    end
    builtin exit $argv
end
set -g __cb_o
set -g __cb_p
set -g __cb_l 0
function __cb_at_prompt --on-event fish_prompt
    set -g __cb_q $status
    if builtin test "$__cb_q" = 0
        set -g __cb_q 130
    end
    builtin printf '%s\0' "$__cb_o" $__cb_q prompt "$PWD" >@DIR@/report
    set -g __cb_o
end
function __cb_s
    return $__cb_l
end
# The loop is not sourced: in a file that is, `exit` would end only the file.
builtin read -z -g __cb_loop <@DIR@/loop
