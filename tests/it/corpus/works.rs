//! Programs that do not wait for input, and often look as if they did.

use super::Label::Works;
use super::{Row, User, row};

pub(super) const ROWS: &[Row] = &[
    // Words that ask, and nobody who reads.
    row("Password:, sleep", &["sleep"], "printf 'Password: '; sleep 60", Works),
    row("Continue? [y/N], busy", &[], "printf 'Continue? [y/N] '; while :; do :; done", Works),
    row("collecting ..., sleep", &["sleep"], "printf 'collecting ... '; sleep 60", Works),
    row(
        ">>>, python sleeps",
        &["python3"],
        "python3 -c 'import time; print(\">>> \",end=\"\",flush=True); time.sleep(60)'",
        Works,
    ),
    row(
        "$, python computes",
        &["python3"],
        "python3 -c 'print(\"$ \",end=\"\",flush=True)\nwhile True: pass'",
        Works,
    ),
    row(
        "[sudo], input given",
        &["sh"],
        "sh -c 'printf \"[sudo] password for me: \" >&2; read x; sleep 60' <<< pw",
        Works,
    ),
    row("read </dev/null", &["sleep"], "read -p 'Name: ' x </dev/null; sleep 60", Works),
    // Sleeps and work.
    row("sleep", &["sleep"], "sleep 60", Works),
    row("timeout sleep", &["timeout"], "timeout 60 sleep 60", Works),
    row("sleep | cat", &["sleep", "cat"], "sleep 60 | cat", Works),
    row("silent work", &["sha256sum"], "sha256sum /dev/zero", Works),
    row(
        "work and a silent pipe",
        &["yes", "sort"],
        "yes | head -c 4000000000 | sort > /dev/null",
        Works,
    ),
    row(
        "silent compiler",
        &["cc"],
        "printf 'int main(void){return 0;}' > a.c; while cc -O2 -o a a.c; do :; done",
        Works,
    ),
    row("wait for a job", &["sleep"], "sleep 60 & wait", Works),
    row("lock", &["flock"], "flock l sleep 60 & sleep 0.2; flock l true", Works),
    row(
        "python threads",
        &["python3"],
        "python3 -c 'import threading,time; t=threading.Thread(target=time.sleep,args=(60,)); t.start(); t.join()'",
        Works,
    ),
    row(
        "spinner",
        &["sleep"],
        "while :; do for c in / - '|'; do printf '\\r%s Working? ' $c; sleep 0.1; done; done",
        Works,
    ),
    row(
        "progress now and then",
        &["sleep"],
        "for i in $(seq 30); do printf '\\r%s%% ' $i; sleep 0.9; done",
        Works,
    ),
    // Servers and watchers.
    row("python http.server", &["python3"], "python3 -m http.server --bind 127.0.0.1 0", Works),
    row(
        "node server",
        &["node"],
        "node -e 'require(\"http\").createServer().listen(0, \"127.0.0.1\")'",
        Works,
    ),
    row("node timer", &["node"], "node -e 'setInterval(()=>{}, 700)'", Works),
    row(
        "node server with a console, and a child at work",
        &["node"],
        "node -e 'process.stdin.resume(); require(\"child_process\").spawn(\"sleep\",[\"60\"])'",
        Works,
    ),
    row("tail -f", &["tail"], "echo 'Name: ' > f; tail -f f", Works),
    row("inotifywait", &["inotifywait"], "inotifywait -m .", Works),
    row(
        "python watches files",
        &["python3"],
        "python3 -c 'import os,time\nwhile True: os.listdir(); time.sleep(0.2)'",
        Works,
    ),
    row("watch", &["watch"], "watch -n 1 date", Works),
    row("top", &["top"], "top", Works),
    row("vmstat", &["vmstat"], "vmstat 1", Works),
    // Other things to be blocked on.
    row("cat of a fifo", &["mkfifo"], "mkfifo p; cat p", Works),
    row("write to a fifo", &["mkfifo"], "mkfifo p; echo a > p", Works),
    row(
        "python recv",
        &["python3"],
        "python3 -c 'import socket; a,b=socket.socketpair(); print(\"Password: \",end=\"\",flush=True); a.recv(1)'",
        Works,
    ),
    row(
        "python accept",
        &["python3"],
        "python3 -c 'import socket; s=socket.create_server((\"127.0.0.1\",0)); s.accept()'",
        Works,
    ),
    row(
        "python polls a socket",
        &["python3"],
        "python3 -c 'import socket,select; a,b=socket.socketpair(); select.select([a],[],[])'",
        Works,
    ),
    row(
        "python relays the terminal to a silent peer",
        &["python3"],
        "python3 -c 'import socket,select; s=socket.create_server((\"127.0.0.1\",0)); c=socket.create_connection(s.getsockname()); print(\"building\"); select.select([0,c],[],[])'",
        Works,
    ),
    // Timed looks at the terminal.
    row("read -t loop", &[], "while :; do read -t 0.2 x; done", Works),
    row("read -s -t loop", &[], "while :; do read -s -t 0.2 x; done", Works),
    row(
        "python select loop",
        &["python3"],
        "python3 -c 'import select\nwhile True: select.select([0],[],[],0.5)'",
        Works,
    ),
    row(
        "python select, 5 s",
        &["python3"],
        "python3 -c 'import select; print(\"Name: \",end=\"\",flush=True)\nwhile True: select.select([0],[],[],5)'",
        Works,
    ),
    row(
        "python raw, timed, works",
        &["python3"],
        "python3 -c 'import select,tty; tty.setraw(0)\nwhile True: select.select([0],[],[],0.1); sum(range(2000000))'",
        Works,
    ),
    // Readers in the background.
    row("background cat", &["cat"], "cat & sleep 60", Works),
    row("background read of /dev/tty", &["sh"], "sh -c 'read x </dev/tty' & sleep 60", Works),
    row("a stopped reader", &["cat"], "cat & sleep 0.2; kill -STOP $!; sleep 60", Works),
    // Modes left behind.
    row("echo off, sleep", &["stty"], "stty -echo; printf 'Password: '; sleep 60", Works),
    row("raw, sleep", &["stty"], "stty raw -echo; sleep 60", Works),
    // Relays and remote ends.
    row(
        "script relays a sleep",
        &["script"],
        "script -qc 'printf \"Password: \"; sleep 60' /dev/null",
        Works,
    ),
    row("sudo runs a sleep", &["sudo"], "sudo -n sleep 60", Works),
    row(
        "ssh runs a sleep",
        &["ssh", "/usr/sbin/sshd"],
        "ssh -F none -i $SSH_KEY -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=known -p $SSH_PORT 127.0.0.1 sleep 60",
        Works,
    ),
    // Downloads from a server that says nothing.
    row("ssh to a silent server", &["ssh"], "ssh -F none -p $STALLED_PORT 127.0.0.1", Works),
    row(
        "python download",
        &["python3"],
        "python3 -c 'import os,urllib.request as u; print(\"Collecting x ... \",end=\"\",flush=True); u.urlopen(\"http://127.0.0.1:\"+os.environ[\"STALLED_PORT\"])'",
        Works,
    ),
    row("npm install", &["npm"], "npm install --registry http://127.0.0.1:$STALLED_PORT x", Works),
    row("git clone", &["git"], "git clone git://127.0.0.1:$STALLED_PORT/x", Works),
    // What cannot be examined, and the far end of a connection.
    Row {
        user: User::Plain,
        ..row(
            "hidden python sleep",
            &["python3"],
            "python3 -c 'import ctypes,time; ctypes.CDLL(None).prctl(4,0,0,0,0); print(\"building\"); time.sleep(60)'",
            Works,
        )
    },
    Row {
        user: User::Plain,
        ..row(
            "hidden python busy, Password:",
            &["python3"],
            "python3 -c 'import ctypes; ctypes.CDLL(None).prctl(4,0,0,0,0); print(\"Password: \",end=\"\",flush=True)
while True: pass'",
            Works,
        )
    },
    Row {
        user: User::Plain,
        ..row(
            "hidden python sleep, Password:",
            &["python3"],
            "python3 -c 'import ctypes,time; ctypes.CDLL(None).prctl(4,0,0,0,0); print(\"Password: \",end=\"\",flush=True); time.sleep(60)'",
            Works,
        )
    },
    row(
        "ssh -t runs a sleep",
        &["ssh", "/usr/sbin/sshd"],
        "ssh -F none -tt -i $SSH_KEY -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=known -p $SSH_PORT 127.0.0.1 sleep 60",
        Works,
    ),
];
