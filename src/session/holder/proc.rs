//! What `/proc` says of processes.

use std::fs;
use std::io::Read as _;
use std::os::linux::fs::MetadataExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use super::super::shells::folder::MARK;

/// A process as its `stat` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::session) struct Process {
    pub pid: i32,
    /// When it started, in ticks since boot: with the pid it names a process for good.
    pub start: u64,
    pub parent: i32,
    /// Its process group.
    pub group: i32,
    /// Its controlling terminal's device; 0 is none.
    pub tty: u64,
    /// That terminal's foreground group.
    pub foreground: i32,
    /// `Z` is a corpse.
    pub state: u8,
    /// CPU time, its own and that of the children it has waited for.
    pub cpu_ms: u64,
    pub threads: u64,
    pub(super) name: String,
}

/// The kernel's clock in `stat`: 100 ticks a second on every Linux that runs this.
const TICK_MS: u64 = 10;
/// Unix 98 pseudo-terminals, by 256 each.
const PTY_SLAVE_MAJOR: u32 = 136;
/// A command line in a result is for recognising a process.
const COMMAND_CHARS_MAX: usize = 200;

/// Reads a process; `None` when it is gone.
pub(in crate::session) fn process(pid: i32) -> Option<Process> {
    parse_stat(pid, &fs::read(format!("/proc/{pid}/stat")).ok()?)
}

fn parse_stat(pid: i32, stat: &[u8]) -> Option<Process> {
    // The name is in brackets and may hold anything, brackets too.
    let open = memchr::memchr(b'(', stat)?;
    let close = memchr::memrchr(b')', stat)?;
    let name = String::from_utf8_lossy(stat.get(open + 1..close)?).into_owned();
    let rest = std::str::from_utf8(stat.get(close + 2..)?).ok()?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    let ticks: u64 = (11..15).filter_map(number).sum();
    Some(Process {
        pid,
        start: number(19)?,
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        tty: number(4).unwrap_or(0),
        foreground: fields.get(5)?.parse().ok()?,
        state: *fields.first()?.as_bytes().first()?,
        cpu_ms: ticks * TICK_MS,
        threads: number(17).unwrap_or(1),
        name,
    })
}

impl Process {
    /// True when the pid still means this process.
    pub(super) fn is_there(&self) -> bool {
        process(self.pid).is_some_and(|now| now.start == self.start && now.state != b'Z')
    }

    /// True when it may be signalled from here.
    pub(super) fn is_ours(&self) -> bool {
        use std::os::unix::fs::MetadataExt as _;
        let own = rustix::process::geteuid();
        let owner = fs::metadata(format!("/proc/{}", self.pid)).map(|process| process.uid());
        own.is_root() || owner.is_ok_and(|owner| owner == own.as_raw())
    }

    /// True when it has let go of its memory: it is about to be a corpse.
    pub(super) fn is_exiting(&self) -> bool {
        let program = fs::read_link(format!("/proc/{}/exe", self.pid));
        program.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
    }

    /// True for a kernel thread, a corpse, and a process between two programs.
    pub(super) fn has_no_command_line(&self) -> bool {
        fs::read(format!("/proc/{}/cmdline", self.pid)).is_ok_and(|line| line.is_empty())
    }

    /// Its arguments, its name first.
    pub(in crate::session) fn arguments(&self) -> Vec<String> {
        let line = fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        let line = String::from_utf8_lossy(&line);
        line.split_terminator('\0').map(str::to_owned).collect()
    }

    /// Its command line, shortened; its name where it has none.
    pub(in crate::session) fn command(&self) -> String {
        let line = fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        let line = line.trim_end();
        // A part of the shell itself that has not become another program, or never will.
        if line.is_empty()
            || line.contains(" --rcfile /proc/self/fd/204 ")
            || line.contains(MARK)
            || line == "sh -i sh"
        {
            return self.name.clone();
        }
        line.chars().take(COMMAND_CHARS_MAX).collect()
    }
}

/// The children of a process, of all its threads.
pub(in crate::session) fn children(pid: i32) -> Vec<i32> {
    let mut all = Vec::new();
    let threads = if is_single_threaded(pid) { vec![pid] } else { threads(pid) };
    for thread in threads {
        match list(&format!("/proc/{pid}/task/{thread}/children")) {
            Ok(list) => {
                all.extend(list.split_ascii_whitespace().filter_map(|n| n.parse::<i32>().ok()));
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                if fs::exists("/proc/self/task").unwrap_or(false)
                    && !fs::exists(format!("/proc/self/task/{}/children", std::process::id()))
                        .unwrap_or(false)
                {
                    return children_by_scan(pid);
                }
            }
            Err(_) => {}
        }
    }
    all
}

/// The children of this process, which has one thread, through a file that is opened once: they are
/// read at every command's end.
#[derive(Debug)]
pub(super) struct OwnChildren(fs::File);

impl OwnChildren {
    /// `None` where the kernel has no such file.
    pub(super) fn open() -> Option<Self> {
        let pid = std::process::id();
        let file = fs::File::open(format!("/proc/{pid}/task/{pid}/children")).ok()?;
        is_single_threaded(i32::try_from(pid).ok()?).then_some(Self(file))
    }

    /// `None`: the list is too long for one read, or cannot be read.
    pub(super) fn read(&self) -> Option<Vec<i32>> {
        let mut bytes = [0; 1024];
        let got = self.0.read_at(&mut bytes, 0).ok().filter(|&got| got < bytes.len())?;
        let list = std::str::from_utf8(&bytes[..got]).ok()?;
        // The last byte is a blank, or the list is not whole.
        (got == 0 || list.ends_with(' '))
            .then(|| list.split_ascii_whitespace().filter_map(|n| n.parse().ok()).collect())
    }
}

/// Whether a process has any children: asked at every command's end of the shell, so its files are
/// opened once. They stay the process's own whatever becomes of its pid.
#[derive(Debug)]
pub(super) struct Childless {
    threads: fs::File,
    children: fs::File,
}

impl Childless {
    /// `None` where the kernel has no such files.
    pub(super) fn open(pid: i32) -> Option<Self> {
        let threads = fs::File::open(format!("/proc/{pid}/task")).ok()?;
        let children = fs::File::open(format!("/proc/{pid}/task/{pid}/children")).ok()?;
        Some(Self { threads, children })
    }

    /// True when it lives, has one thread, and no children, not even dead ones.
    pub(super) fn holds(&self) -> bool {
        self.threads.metadata().is_ok_and(|task| task.st_nlink() == 3)
            && self.children.read_at(&mut [0; 8], 0).is_ok_and(|got| got == 0)
    }
}

/// A process's `task` folder has a link for each thread besides its own two (proc(5)): asking for
/// their number is cheaper than listing them, and this stands in the path of every command.
fn is_single_threaded(pid: i32) -> bool {
    fs::metadata(format!("/proc/{pid}/task")).is_ok_and(|task| task.st_nlink() == 3)
}

/// A short file of `/proc`, read without asking for its size, which it does not have.
fn list(path: &str) -> std::io::Result<String> {
    let mut file = fs::File::open(path)?;
    let mut bytes = [0; 1024];
    let got = file.read(&mut bytes)?;
    let mut text = String::from_utf8_lossy(&bytes[..got]).into_owned();
    if got == bytes.len() {
        file.read_to_string(&mut text)?;
    }
    Ok(text)
}

/// A kernel without `children` files: every process is asked for its parent.
fn children_by_scan(parent: i32) -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok())
        .filter(|&pid| parent_of(pid) == Some(parent))
        .collect()
}

fn parent_of(pid: i32) -> Option<i32> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let close = memchr::memrchr(b')', &stat)?;
    let rest = std::str::from_utf8(stat.get(close + 2..)?).ok()?;
    rest.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// The threads of a process.
pub(super) fn threads(pid: i32) -> Vec<i32> {
    if is_single_threaded(pid) {
        return vec![pid];
    }
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// The system call in which a thread is blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Blocked {
    pub number: i64,
    pub arguments: [u64; 6],
}

/// `Ok(None)`: it runs, or is gone. `Err`: it may not be examined.
pub(super) fn blocked_in(pid: i32, thread: i32) -> Result<Option<Blocked>, ()> {
    match list(&format!("/proc/{pid}/task/{thread}/syscall")) {
        Ok(line) => Ok(parse_syscall(&line)),
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Err(()),
        // A kernel that shows nobody's calls.
        Err(_) if !fs::exists("/proc/self/syscall").unwrap_or(true) => Err(()),
        Err(_) => Ok(None),
    }
}

fn parse_syscall(line: &str) -> Option<Blocked> {
    let mut fields = line.split_ascii_whitespace();
    let number = fields.next()?.parse().ok().filter(|&number| number >= 0)?;
    let mut arguments = [0; 6];
    for argument in &mut arguments {
        *argument = u64::from_str_radix(fields.next()?.strip_prefix("0x")?, 16).ok()?;
    }
    Some(Blocked { number, arguments })
}

/// For how long a thread has run on a processor, in ns; `None` where that is not counted. How often
/// would not do: one that runs now and then blocks has not run once more.
pub(super) fn ran_ns(pid: i32, thread: i32) -> Option<u64> {
    let line = list(&format!("/proc/{pid}/task/{thread}/schedstat")).ok()?;
    let ran = line.split_ascii_whitespace().next()?.parse().ok()?;
    (ran > 0).then_some(ran)
}

/// How often a thread has given up the processor by itself: two waits differ in it.
pub(super) fn waits(pid: i32, thread: i32) -> u64 {
    fs::read_to_string(format!("/proc/{pid}/task/{thread}/status"))
        .ok()
        .and_then(|status| {
            let line = status.lines().find(|line| line.starts_with("voluntary_ctxt_switches"))?;
            line.split_ascii_whitespace().nth(1)?.parse().ok()
        })
        .unwrap_or(0)
}

/// The device behind a process's descriptor.
pub(super) fn device_of(pid: i32, descriptor: u64) -> Option<u64> {
    Some(fs::metadata(format!("/proc/{pid}/fd/{descriptor}")).ok()?.st_rdev())
}

/// What a process's descriptor leads to, as the kernel names it.
pub(super) fn link_of(pid: i32, descriptor: u64) -> Option<String> {
    let link = fs::read_link(format!("/proc/{pid}/fd/{descriptor}")).ok()?;
    Some(link.to_string_lossy().into_owned())
}

/// True for a descriptor over which another process or machine may say something: a socket, a watch
/// on files, or a pipe; but not for one that only leads back to the same process, which programs
/// have to wake themselves.
pub(super) fn leads_elsewhere(pid: i32, descriptor: u64) -> bool {
    let Some(link) = link_of(pid, descriptor) else { return false };
    if let Some(inode) = link.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']')) {
        return !inode.parse().is_ok_and(|inode| has_pair(pid, inode));
    }
    let is_own = |&other: &u64| {
        other != descriptor && link_of(pid, other).is_some_and(|other| other == link)
    };
    link == "anon_inode:inotify"
        || (link.starts_with("pipe:") && !descriptors(pid).iter().any(is_own))
}

/// The ends of a `socketpair` are made one after the other, and have no name.
fn has_pair(pid: i32, inode: u64) -> bool {
    let names = [inode.saturating_sub(1), inode + 1].map(|other| format!("socket:[{other}]"));
    let pair = descriptors(pid)
        .into_iter()
        .filter_map(|descriptor| link_of(pid, descriptor))
        .find_map(|link| names.iter().position(|name| *name == link));
    let Some(other) = pair.map(|index| if index == 0 { inode - 1 } else { inode + 1 }) else {
        return false;
    };
    let sockets = fs::read_to_string(format!("/proc/{pid}/net/unix")).unwrap_or_default();
    [inode, other].into_iter().all(|inode| is_nameless(&sockets, inode))
}

/// `Num RefCount Protocol Flags Type St Inode Path`: connected, and no path.
fn is_nameless(sockets: &str, inode: u64) -> bool {
    let inode = inode.to_string();
    sockets.lines().any(|line| {
        let mut words = line.split_ascii_whitespace().skip(5);
        words.next() == Some("03") && words.next() == Some(&*inode) && words.next().is_none()
    })
}

fn descriptors(pid: i32) -> Vec<u64> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// The slave of a pseudo-terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slave {
    /// As in `/dev/pts/4`.
    pub number: u32,
    pub device: u64,
}

/// The slave behind a descriptor that is the master of a pseudo-terminal.
pub(super) fn slave_of(pid: i32, descriptor: u64) -> Option<Slave> {
    let info = fs::read_to_string(format!("/proc/{pid}/fdinfo/{descriptor}")).ok()?;
    let index = info.lines().find_map(|line| line.strip_prefix("tty-index:"))?;
    let number: u32 = index.trim().parse().ok()?;
    let device = rustix::fs::makedev(PTY_SLAVE_MAJOR + number / 256, number % 256);
    Some(Slave { number, device })
}

/// True when a thread runs, or waits for a disk.
pub(super) fn thread_works(pid: i32, thread: i32) -> bool {
    fs::read(format!("/proc/{pid}/task/{thread}/stat"))
        .ok()
        .and_then(|stat| parse_stat(thread, &stat))
        .is_some_and(|thread| b"RD".contains(&thread.state))
}

/// The file that a process runs.
pub(super) fn program_of(pid: i32) -> Option<(u64, u64)> {
    file_of(Path::new(&format!("/proc/{pid}/exe")))
}

/// What a path leads to, by device and inode.
pub(super) fn file_of(path: &Path) -> Option<(u64, u64)> {
    let file = fs::metadata(path).ok()?;
    Some((file.st_dev(), file.st_ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_brackets_do_not_mislead() {
        let stat = b"12 (a) b) S 1 34 34 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4711 100 200";
        let process = parse_stat(12, stat).unwrap();
        assert_eq!((process.group, process.state, process.start), (34, b'S', 4711));
        assert_eq!((process.parent, process.tty, process.foreground), (1, 0, -1));
        assert_eq!((process.cpu_ms, process.name.as_str()), (260, "a) b"));
        assert_eq!(process.threads, 1);
    }

    #[test]
    fn this_process_is_there() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let me = process(pid).unwrap();
        assert!(me.is_there());
        assert!(!Process { start: me.start + 1, ..me }.is_there());
    }

    #[test]
    fn whether_there_are_children_is_seen_at_once() {
        let mut sleeper = std::process::Command::new("sh");
        let sleeper =
            sleeper.args(["-c", "read -r x; sleep 1000 & read -r x; kill $!; wait; read -r x"]);
        let mut shell = sleeper.stdin(std::process::Stdio::piped()).spawn().unwrap();
        let childless = Childless::open(i32::try_from(shell.id()).unwrap()).unwrap();
        let mut input = shell.stdin.take().unwrap();
        for expected in [true, false, true] {
            while childless.holds() != expected {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            std::io::Write::write_all(&mut input, b"\n").unwrap();
        }
        shell.wait().unwrap();
        assert!(!childless.holds(), "it is gone");
    }

    #[test]
    fn what_leads_back_to_the_same_process_leads_nowhere() {
        use std::os::fd::AsRawFd as _;
        let pid = i32::try_from(std::process::id()).unwrap();
        let number = |end: &dyn std::os::fd::AsRawFd| u64::try_from(end.as_raw_fd()).unwrap();
        let (reader, writer) = std::io::pipe().unwrap();
        assert!(!leads_elsewhere(pid, number(&reader)));
        drop(writer);
        assert!(leads_elsewhere(pid, number(&reader)));
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(leads_elsewhere(pid, number(&server)) && leads_elsewhere(pid, number(&other)));
        // Other tests make sockets, too: now and then one comes in between.
        let pair = (0..100)
            .map(|_| std::os::unix::net::UnixStream::pair().unwrap())
            .find(|(end, _)| !leads_elsewhere(pid, number(end)));
        let (end, far_end) = pair.unwrap();
        drop(far_end);
        assert!(leads_elsewhere(pid, u64::try_from(end.as_raw_fd()).unwrap()));
    }

    #[test]
    fn system_calls() {
        let line = "0 0x0 0x56 0x400 0x0 0x7 0x1 0x7ffc 0x7f7a\n";
        let blocked = Blocked { number: 0, arguments: [0, 0x56, 0x400, 0, 7, 1] };
        assert_eq!(parse_syscall(line), Some(blocked));
        assert_eq!(parse_syscall("running\n"), None);
        assert_eq!(parse_syscall("-1 0x7ffc 0x7f7a\n"), None);
    }
}
