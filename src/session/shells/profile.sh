# What an interactive sh of the user's has, written into the folder $1. dash tells no functions.
__cb_d=$1
if [ -r ~/.profile ]; then . ~/.profile; fi
if [ -n "${ENV-}" ] && [ -r "$ENV" ]; then . "$ENV"; fi
set +eux
alias | sed 's/^alias //;s/^/alias /' >"$__cb_d/text"
command /usr/bin/env -0 >"$__cb_d/env"
