# The driver: what makes an interactive bash take commands from a holder (design, section 4.4).
#
# Descriptors, all private, none seen by a program that a command starts:
#   240 go: one NUL byte a command     241 report      242 second terminal, for stderr
#   243 /dev/null                      204 this file   245 the command: id, cwd, stderr descriptor, text
#   246 first terminal
# They come as 200 to 206, which bash would pass on. What bash puts aside for the time of a
# redirection it closes on exec, and so does a copy of that: made once here, it spares each command
# a redirection a descriptor. Nobody locks a file by these numbers, as many do by 200.
# `mapfile` calls the text back for each byte of go. That is neither a function, in which `declare`
# would make a local variable, nor a loop, which a command's `break` would leave. An interrupt drops
# bash to its top level, and so to the next PROMPT_COMMAND, which reports the command that was open.
# Not by way of `builtin`, which would open it again.
exec 204<&- 10<&- 11<&- 12<&- 13<&- 14<&- 15<&-
{ exec 240<&10 241<&11 242<&12 243<&13 245<&14 246<&15; } 200<&- 201<&- 202<&- 203<&- 205<&- 206<&-
exec 200<&- 201<&- 202<&- 203<&- 205<&- 206<&-
\builtin set +o history +H
\builtin unset HISTFILE
# As at a prompt: an `exec` that fails leaves the shell.
\builtin shopt -s execfail
PS1= PS2= PS0=
__cb_o= __cb_s=0 __cb_g=0 __cb_p=() __cb_a=()
# Reports the end of a command, or that none is open. Behind the count of the statuses that were
# caught: `a` for aliases, behind which may be a pipeline that a text does not show, and what is
# told as $2, `w` where nothing has taken the rest of the command away.
__cb_n() {
  __cb_b || __cb_h
  if [[ -n ${__cb_p[0]-} ]]; then \builtin set -- "${__cb_p[0]}"; fi
  \builtin printf '%s\0' "$__cb_o" "$1" "${#__cb_p[@]}${BASH_ALIASES[*]:+a}${2-}" "${__cb_p[@]}" "${PWD-}" >&241 && __cb_g=0
  [[ $1 = cd ]] || __cb_s=$1
  __cb_o= __cb_p=() PROMPT_COMMAND=$__cb_l
}
# Takes a command; its own status is the last command's, for `$?`.
__cb_r() {
  __cb_g=1
  # What `mapfile` has gathered of go.
  __cb_x=()
  \builtin mapfile -t -d '' -u 245 __cb_a
  __cb_o=${__cb_a[0]}
  if [[ -n ${__cb_a[1]} ]] && ! \builtin cd -- "${__cb_a[1]}"; then
    __cb_a[3]='__cb_p=(cd)'
  fi
  \builtin return "$__cb_s"
}
# Fails where a function has taken the place of `builtin`: a function's `return` is its own.
__cb_b() {
  \builtin return 0
  [[ '' ]]
}
# In POSIX mode no function goes before `unset`. All that is left of the mode is put back.
__cb_h() {
  if [[ -o posix ]]; then
    \unset -f builtin
  else
    __cb_z=$BASHOPTS
    POSIXLY_CORRECT=y
    \unset -f builtin
    \builtin unset POSIXLY_CORRECT
    [[ :$__cb_z: = *:inherit_errexit:* ]] || \builtin shopt -u inherit_errexit
    [[ :$__cb_z: = *:expand_aliases:* ]] || \builtin shopt -u expand_aliases
  fi
}
# All in its second line: there errors count the lines of the command's own text from 1. The
# comment swallows what `mapfile` adds.
__cb_e='\builtin eval "${__cb_a[3]}" 2>&"${__cb_a[2]}"'
__cb_m=$'\n'"if { __cb_r; } >&243; then $__cb_e; else $__cb_e; fi; { __cb_n"' "$?" w; } >&243 #'
# After `mapfile` go has ended: the session is closed. Or a command has closed all descriptors.
__cb_l='{ __cb_n "$?"; } >&243 2>&243; { \builtin mapfile -d "" -u 240 -c 1 -C "$__cb_m" __cb_x; } 2>&243; \builtin exit "$__cb_g"'
\builtin unset __cb_e
PROMPT_COMMAND=$__cb_l
