# The driver: what makes an interactive bash take commands from a holder (design, section 4.4).
#
# Descriptors, all private, none seen by a command:
#   200 go: one NUL byte a command     201 report      202 second terminal, for stderr
#   203 /dev/null                      204 this file   205 the command: id, cwd, stderr descriptor, text
#   206 first terminal
# The loop stands in PROMPT_COMMAND and not in a function: `declare` in a command has to make a
# global variable. An interrupt drops bash to its top level, and so to the next PROMPT_COMMAND,
# which reports the command that was open.
# Not by way of `builtin`, which would open it again.
exec 204<&-
\builtin set +o history +H
\builtin unset HISTFILE
# As at a prompt: an `exec` that fails leaves the shell.
\builtin shopt -s execfail
PS1= PS2= PS0=
__cb_o= __cb_s=0 __cb_p=() __cb_a=()
__cb_k() { \builtin return "$1"; }
__cb_n() {
  if [[ -n ${__cb_p[0]-} ]]; then __cb_s=${__cb_p[0]}; else __cb_s=$1; fi
  \builtin set -- "$__cb_s"
  while :; do
    \builtin printf '%s\0' "$__cb_o" "$1" "${#__cb_p[@]}" "${__cb_p[@]}" "${PWD-}" >&201
    __cb_o= __cb_p=() PROMPT_COMMAND=$__cb_l
    until \builtin read -r -d '' -u 200 __cb_a; do
      # Above 128 is $TMOUT; otherwise the holder is gone.
      [[ $? -gt 128 ]] || \builtin exit 0
    done
    \builtin mapfile -t -d '' -u 205 __cb_a
    __cb_o=${__cb_a[0]}
    [[ -n ${__cb_a[1]} ]] || \builtin return 0
    \builtin cd -- "${__cb_a[1]}" && \builtin return 0
    \builtin set -- cd
  done
}
# The last line is for a command that is a `break`.
# All in its second line: there errors count the lines of the command's own text from 1.
__cb_c='200<&- 201>&- 202>&- 203>&- 205<&- 206>&-'
__cb_e='\builtin eval "${__cb_a[3]}" 2>&"${__cb_a[2]}"'
__cb_m='while { __cb_n "$?"; } >&203 2>&203; do '
__cb_m+='if { __cb_k "$__cb_s"; } >&203 2>&203; then '"$__cb_e $__cb_c; else $__cb_e $__cb_c; fi 2>&203; done; "
__cb_m+='\builtin eval "$__cb_m"'
__cb_l=$'\n'$__cb_m
\builtin unset __cb_c __cb_e
PROMPT_COMMAND=$__cb_l
