# The driver for sh. The pipe that this comes through goes on with each command's lines.
# All names begin with __cb_: o the open command, t its text, p its caught status, l the last one,
# x the options that are put aside while the driver runs, k the command before.
\command cd -- @CWD@ || exit 1
unset OLDPWD
PS1= PS2=
__cb_o= __cb_t= __cb_p= __cb_l=0 __cb_x= __cb_k= __cb_q=
# Reports the end of a command.
__cb_n() {
  __cb_x=
  case $- in *x*) __cb_x='set -x;'; set +x ;; esac
  case $- in *v*) __cb_x="${__cb_x}set -v;"; set +v ;; esac
  case $1 in
    cd) ;;
    *) __cb_l=${__cb_p:-$1} ;;
  esac
  PS1= PS2=
  case ${__cb_p:+1} in
    1) command printf '%s\0' "$__cb_o" "$__cb_p" 1 "$__cb_p" "${PWD-}" >|@DIR@/report ;;
    *) command printf '%s\0' "$__cb_o" "$1" 0 "${PWD-}" >|@DIR@/report ;;
  esac
  __cb_k=$__cb_o __cb_o= __cb_p= __cb_t=
}
# Reports once more.
__cb_r() {
  case $__cb_o in '') __cb_o=$__cb_k __cb_q=$__cb_l ;; esac
  { __cb_n "$__cb_q"; } 2>/dev/null
}
# The status of the command before, for `$?`.
__cb_s() { return "$__cb_l"; }
__cb_n 0
