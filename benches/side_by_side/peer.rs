//! Other programs, and the bare kernel: what callboard is measured against.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use portable_pty::{CommandBuilder, PtySize, native_pty_system};

/// Where a program is, if the machine has it.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// Runs a shell line to its end; true when it succeeded.
pub fn shell(line: &str) -> bool {
    Command::new("sh")
        .args(["-c", line])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// A bash on a bare PTY.
pub struct BareBash {
    reader: Box<dyn Read + Send>,
    writer: Box<dyn Write + Send>,
    child: Box<dyn portable_pty::Child + Send + Sync>,
    seen: Vec<u8>,
    marks: u64,
}

impl BareBash {
    /// `read`/`eval` without prompt or job control: the least that a bash can do.
    pub fn read_eval() -> Self {
        Self::start(&["--norc", "--noprofile", "-c", "while IFS= read -r l; do eval \"$l\"; done"])
    }

    /// As a person has it, without rc files.
    pub fn interactive() -> Self {
        Self::start(&["--norc", "--noprofile", "-i"])
    }

    fn start(args: &[&str]) -> Self {
        let size = PtySize { rows: 40, cols: 120, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).unwrap();
        let mut command = CommandBuilder::new("bash");
        command.args(args);
        command.env("TERM", "dumb");
        command.env("PS1", "$ ");
        let child = pair.slave.spawn_command(command).unwrap();
        drop(pair.slave);
        let mut bash = Self {
            reader: pair.master.try_clone_reader().unwrap(),
            writer: pair.master.take_writer().unwrap(),
            child,
            seen: Vec::new(),
            marks: 0,
        };
        // Without echo nothing but output comes back.
        bash.run("stty -echo");
        bash
    }

    /// Types a command and reads to the mark behind it.
    pub fn run(&mut self, command: &str) {
        self.marks += 1;
        // The mark is split in what is typed, so that no echo of it is taken for the real one.
        let mark = format!("MK{}Q0", self.marks);
        self.writer
            .write_all(format!("{command}; echo M''K{}Q$?\n", self.marks).as_bytes())
            .unwrap();
        self.writer.flush().unwrap();
        self.seen.clear();
        let mut buffer = [0; 65536];
        loop {
            let count = self.reader.read(&mut buffer).unwrap();
            self.seen.extend_from_slice(&buffer[..count]);
            let tail = self.seen.len().saturating_sub(count + mark.len());
            if self.seen[tail..].windows(mark.len()).any(|window| window == mark.as_bytes()) {
                return;
            }
            let keep = self.seen.len().min(mark.len());
            self.seen.drain(..self.seen.len() - keep);
        }
    }

    /// Pid of the shell.
    pub fn pid(&self) -> u32 {
        self.child.process_id().unwrap()
    }
}

impl Drop for BareBash {
    fn drop(&mut self) {
        // `Child::kill` sleeps up to 200 ms; the pid is ours, so KILL it directly.
        drop(Command::new("kill").args(["-KILL", &self.pid().to_string()]).status());
        drop(self.child.wait());
    }
}

/// Reads all that `command` prints on a bare PTY with its default modes, and throws it away.
pub fn bare_read(command: &str) -> u64 {
    let size = PtySize { rows: 40, cols: 120, pixel_width: 0, pixel_height: 0 };
    let pair = native_pty_system().openpty(size).unwrap();
    let mut builder = CommandBuilder::new("sh");
    builder.args(["-c", command]);
    let mut child = pair.slave.spawn_command(builder).unwrap();
    drop(pair.slave);
    let mut reader = pair.master.try_clone_reader().unwrap();
    let mut buffer = vec![0; 65536];
    let mut total = 0;
    while let Ok(count @ 1..) = reader.read(&mut buffer) {
        total += count as u64;
    }
    child.wait().unwrap();
    total
}
