# The driver for zsh. The pipe that this comes through goes on with each command's lines.
# All names begin with __cb_: o the open command, t its text, p its caught statuses, l the last
# status, x the options that are put aside while the driver runs, k the command
# before.
\builtin unsetopt bang_hist prompt_cr prompt_sp notify check_jobs hup beep
\builtin setopt interactive_comments
\builtin unset HISTFILE
PS1= PS2= RPS1= RPS2= 0=zsh
typeset -g __cb_o= __cb_t= __cb_l=0 __cb_x= __cb_g= __cb_q=0 __cb_k=
typeset -ga __cb_p=()
# Reports the end of a command and waits for the next. Traps and options are as the command left
# them again when it returns.
__cb_n() {
  \builtin emulate -L zsh
  \builtin trap '' INT
  \builtin trap - DEBUG ZERR
  PS1= PS2= RPS1= RPS2=
  if (( ${#__cb_p} )); then \builtin set -- "${__cb_p[1]}"; fi
  \builtin printf '%s\0' "$__cb_o" "$1" "${#__cb_p}" "${__cb_p[@]}" "${PWD-}" >|@DIR@/report
  [[ $1 = cd ]] || __cb_l=$1
  __cb_k=$__cb_o __cb_o= __cb_p=() __cb_t=
  \builtin read -r __cb_g <@DIR@/word || \builtin exit 0
}
# The status of the command before, for `$?`.
__cb_s() { \builtin return "$__cb_l"; }
# Reports once more.
__cb_r() {
  if [[ -z $__cb_o ]]; then __cb_o=$__cb_k __cb_q=$__cb_l; fi
  { __cb_n $__cb_q; } 2>/dev/null
}
{ __cb_n 0; } 2>/dev/null
