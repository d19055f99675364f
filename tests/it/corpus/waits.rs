//! Programs that wait for input.

use super::Label::{MayWait, MayWaitSecret, Waits, WaitsSecret};
use super::{Row, User, row};

/// A repository with a change that has not been committed, and two commits.
const REPOSITORY: &str = "git init -q . && git config user.email t@example.invalid && git config user.name T \
     && seq 100 > f && git add f && git commit -qm one && seq 200 > f && git commit -qam two && seq 300 > f";
/// An installed package that exists in this folder alone.
const PACKAGES: &str = "mkdir -p lists/partial cache/archives/partial && printf '%s\\n' 'Package: callboard-probe' \
     'Status: install ok installed' 'Maintainer: T <t@example.invalid>' 'Architecture: all' \
     'Version: 1' 'Description: probe' '' > status";

pub(super) const ROWS: &[Row] = &[
    // The shell's own.
    row("read", &[], "read -p 'Username: ' u", Waits),
    row("read -s", &[], "read -s -p 'Password: ' p", WaitsSecret),
    row("read -n 1", &[], "read -n 1 -p 'Press any key ' k", Waits),
    row("read -e", &[], "read -e -p 'Path: ' p", MayWait),
    row("read after a silence", &[], "sleep 1; date +%s%N > at; read x", Waits),
    row("read after a long silence", &[], "sleep 4; date +%s%N > at; read x", Waits),
    row("read from the second terminal", &[], "read x <&2", Waits),
    row("select", &[], "select x in red green; do break; done", Waits),
    row("nested bash", &[], "bash --norc --noprofile -i", MayWait),
    row("nested sh", &["sh"], "sh -i", Waits),
    row("sh: y/n", &["sh"], "sh -c 'printf \"Continue? [y/N] \"; read x'", Waits),
    row("/dev/tty, stdin piped", &["sh"], "printf 'a\\n' | sh -c 'read x </dev/tty'", Waits),
    row("xargs -p", &["xargs"], "echo a | xargs -p echo", Waits),
    // Filters without a file.
    row("cat", &["cat"], "cat", Waits),
    row("cat to a file", &["cat"], "cat > out", Waits),
    row("sort", &["sort"], "sort", Waits),
    row("head | wc", &["head", "wc"], "head -n 1 | wc -l", Waits),
    row("rm -i", &["rm"], "touch f; rm -i f", Waits),
    // Python.
    row("python input", &["python3"], "python3 -c 'input(\"Name? \")'", Waits),
    row(
        "python input, readline",
        &["python3"],
        "python3 -c 'import readline; input(\"Name? \")'",
        MayWait,
    ),
    row(
        "python getpass",
        &["python3"],
        "python3 -c 'import getpass; getpass.getpass()'",
        WaitsSecret,
    ),
    row("python REPL", &["python3"], "python3 -q", MayWait),
    Row {
        before: "echo x=1 > p.py",
        ..row("python pdb", &["python3"], "python3 -m pdb p.py", MayWait)
    },
    row(
        "python select",
        &["python3"],
        "python3 -c 'import select,sys; select.select([sys.stdin],[],[])'",
        MayWait,
    ),
    row(
        "python poll",
        &["python3"],
        "python3 -c 'import select; p=select.poll(); p.register(0, 1); p.poll()'",
        MayWait,
    ),
    row(
        "python epoll",
        &["python3"],
        "python3 -c 'import select; p=select.epoll(); p.register(0, 1); p.poll()'",
        MayWait,
    ),
    row(
        "python reads in a thread",
        &["python3"],
        "python3 -c 'import threading,sys; t=threading.Thread(target=sys.stdin.readline); t.start(); t.join()'",
        Waits,
    ),
    row(
        "python asyncio prompt",
        &["python3"],
        "python3 -c 'import asyncio; print(\"> \",end=\"\",flush=True); l=asyncio.new_event_loop(); l.add_reader(0,print); l.run_forever()'",
        MayWait,
    ),
    row(
        "python raw menu",
        &["python3"],
        "python3 -c 'import sys,tty; tty.setraw(0); print(\"Pick: > a   b\\r\"); sys.stdin.read(3)'",
        Waits,
    ),
    row(
        "python curses, halfdelay",
        &["python3"],
        "python3 -c 'import curses
def f(s):
  curses.halfdelay(1)
  while s.getch()<0: pass
curses.wrapper(f)'",
        MayWait,
    ),
    // Other languages and calculators.
    row("node REPL", &["node"], "node", MayWait),
    row(
        "node readline",
        &["node"],
        "node -e 'require(\"readline\").createInterface({input:process.stdin,output:process.stdout}).question(\"Name? \",()=>process.exit())'",
        MayWait,
    ),
    row(
        "node raw keys",
        &["node"],
        "node -e 'process.stdin.setRawMode(true); process.stdout.write(\"? Pick  a  b\"); process.stdin.on(\"data\",()=>process.exit())'",
        MayWait,
    ),
    row("npm init", &["npm"], "npm init", MayWait),
    row("perl <STDIN>", &["perl"], "perl -e 'print \"Go? \"; $|=1; print \"\"; <STDIN>'", Waits),
    row("bc", &["bc"], "bc -q", MayWait),
    row("dc", &["dc"], "dc", Waits),
    row("ed", &["ed"], "ed", Waits),
    row("sqlite3", &["sqlite3"], "sqlite3", MayWait),
    row("gdb", &["gdb"], "gdb -q", MayWait),
    row("ftp", &["ftp"], "ftp", MayWait),
    // Pagers.
    row("less", &["less"], "seq 1000 > f; less f", Waits),
    row("less of a pipe", &["less"], "seq 1000 | less", Waits),
    row("more", &["more"], "seq 1000 > f; more f", MayWait),
    Row {
        before: "printf '.TH X 1\\n' > x.1; for i in $(seq 300); do printf '.PP\\nline %s\\n' $i; done >> x.1",
        ..row("man", &["man", "less"], "MANPAGER=less man ./x.1", Waits)
    },
    Row {
        before: REPOSITORY,
        ..row("git diff, pager", &["git", "less"], "GIT_PAGER=less git diff", Waits)
    },
    // Editors, and who starts them.
    row("vim", &["vim"], "vim f", MayWait),
    row("vi -u NONE", &["vi"], "vi -u NONE f", MayWait),
    row("nano", &["nano"], "nano f", Waits),
    Row {
        before: REPOSITORY,
        ..row("git commit", &["git", "vi"], "GIT_EDITOR=vi git commit -a", MayWait)
    },
    Row {
        before: REPOSITORY,
        ..row(
            "git rebase -i",
            &["git", "vi"],
            "git checkout -q f; GIT_EDITOR=vi git rebase -i HEAD~1",
            MayWait,
        )
    },
    Row { before: REPOSITORY, ..row("git add -p", &["git"], "git add -p", Waits) },
    // Menus.
    row("fzf", &["fzf"], "printf 'a\\nb\\n' | fzf", MayWait),
    row("dialog", &["dialog"], "dialog --yesno Sure? 6 20", Waits),
    row("whiptail", &["whiptail"], "whiptail --yesno Sure? 8 20", MayWait),
    // Passwords.
    row(
        "sudo",
        &["sudo", "setpriv"],
        "setpriv --reuid=65534 --regid=65534 --clear-groups sudo -k true",
        WaitsSecret,
    ),
    row(
        "su",
        &["su", "setpriv"],
        "setpriv --reuid=65534 --regid=65534 --clear-groups su root -c true",
        WaitsSecret,
    ),
    row(
        "passwd",
        &["passwd", "setpriv"],
        "setpriv --reuid=65534 --regid=65534 --clear-groups passwd",
        WaitsSecret,
    ),
    Row {
        user: User::Plain,
        ..row("sudo of a plain user", &["sudo"], "sudo -k true", MayWaitSecret)
    },
    Row {
        user: User::Plain,
        ..row("su of a plain user", &["su"], "su root -c true", MayWaitSecret)
    },
    row("ssh-keygen", &["ssh-keygen"], "ssh-keygen -q -t ed25519 -f key", WaitsSecret),
    row("openssl passwd", &["openssl"], "openssl passwd -6", WaitsSecret),
    row(
        "ssh host key",
        &["ssh", "/usr/sbin/sshd"],
        "ssh -F none -o UserKnownHostsFile=known -o GlobalKnownHostsFile=none -p $SSH_PORT nobody@127.0.0.1",
        Waits,
    ),
    row(
        "ssh password",
        &["ssh", "/usr/sbin/sshd"],
        "ssh -F none -o StrictHostKeyChecking=no -o UserKnownHostsFile=known -o PubkeyAuthentication=no -p $SSH_PORT nobody@127.0.0.1",
        WaitsSecret,
    ),
    // Package tools and relays.
    Row {
        before: PACKAGES,
        ..row(
            "apt-get confirm",
            &["apt-get"],
            "apt-get -o Dir::State=$PWD -o Dir::State::status=$PWD/status -o Dir::Cache=$PWD/cache -o Debug::NoLocking=1 \
             -o Dir::Bin::dpkg=false remove callboard-probe",
            Waits,
        )
    },
    row(
        "script relays a read",
        &["script"],
        "script -qc \"sh -c 'printf \\\"Go? \\\"; read x'\" /dev/null",
        Waits,
    ),
    row(
        "script relays a secret",
        &["script"],
        "script -qc \"bash -c 'read -s -p Key: x'\" /dev/null",
        WaitsSecret,
    ),
    // What cannot be examined, and the far end of a connection.
    Row {
        user: User::Plain,
        ..row(
            "hidden python input",
            &["python3"],
            "python3 -c 'import ctypes; ctypes.CDLL(None).prctl(4,0,0,0,0); input(\"Name? \")'",
            MayWait,
        )
    },
    row(
        "ssh, remote shell",
        &["ssh", "/usr/sbin/sshd"],
        "ssh -F none -tt -i $SSH_KEY -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=known -p $SSH_PORT 127.0.0.1 \
         \"PS1='remote$ ' bash --norc --noprofile\"",
        MayWait,
    ),
    row(
        "script relays a shell",
        &["script"],
        "script -qc 'bash --norc --noprofile' /dev/null",
        MayWait,
    ),
];
