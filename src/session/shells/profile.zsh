# What an interactive zsh of the user's has, written into the folder $1.
\builtin trap - DEBUG ZERR EXIT
\builtin unsetopt errexit nounset xtrace
{ \builtin functions; \builtin alias -L; } >|"$1/text"
\builtin command /usr/bin/env -0 >|"$1/env"
