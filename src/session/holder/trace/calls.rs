//! A call that waits, as what it is about to do. Its arguments are numbers and addresses in the
//! memory of its process.

use std::net::SocketAddr;

use super::super::super::os::filter::{Abi, Call, SOCKETCALL_BIND, WRITES, call};
use super::super::super::os::notify::{Waiting, parse_address, read_memory, read_name};

/// A name as it was given, and what it is relative to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name {
    /// A folder's descriptor; `None`: the working directory.
    pub from: Option<i32>,
    /// The bytes; empty for the descriptor itself.
    pub path: Vec<u8>,
}

/// What a call is about to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Open for writing.
    Open {
        /// What.
        name: Name,
        /// As `open` takes them.
        flags: u32,
    },
    /// Give another name.
    Rename {
        /// The name that it has.
        from: Name,
        /// The one that it gets.
        to: Name,
        /// They change places.
        is_exchange: bool,
    },
    /// Remove a name.
    Remove {
        /// Which.
        name: Name,
    },
    /// Make a name: a link of either kind, or a node.
    Make {
        /// Which.
        name: Name,
    },
    /// Cut a file off, or lengthen it.
    Truncate {
        /// Which.
        name: Name,
    },
    /// Bind a socket.
    Bind {
        /// Its descriptor.
        socket: i32,
        /// To what.
        address: SocketAddr,
    },
}

/// What it is about to do; `None` where it changes nothing that matters, or cannot be read.
pub(super) fn read(waiting: &Waiting) -> Option<Change> {
    let (abi, call) = call(waiting.arch, waiting.number)?;
    Arguments { waiting, abi }.change(call)
}

struct Arguments<'a> {
    waiting: &'a Waiting,
    abi: Abi,
}

impl Arguments<'_> {
    fn change(&self, call: Call) -> Option<Change> {
        Some(match call {
            Call::Open => Change::Open { name: self.name(None, 0)?, flags: self.number(1) },
            Call::Creat => Change::Open { name: self.name(None, 0)?, flags: CREAT },
            Call::Openat => Change::Open { name: self.name(Some(0), 1)?, flags: self.number(2) },
            Call::Openat2 => self.openat2()?,
            Call::Rename => self.rename((None, 0), (None, 1), 0)?,
            Call::Renameat => self.rename((Some(0), 1), (Some(2), 3), 0)?,
            Call::Renameat2 => self.rename((Some(0), 1), (Some(2), 3), self.number(4))?,
            Call::Unlink | Call::Rmdir => Change::Remove { name: self.name(None, 0)? },
            Call::Unlinkat => Change::Remove { name: self.name(Some(0), 1)? },
            Call::Link | Call::Symlink => Change::Make { name: self.name(None, 1)? },
            Call::Linkat => Change::Make { name: self.name(Some(2), 3)? },
            Call::Symlinkat => Change::Make { name: self.name(Some(1), 2)? },
            Call::Mknod => Change::Make { name: self.name(None, 0)? },
            Call::Mknodat => Change::Make { name: self.name(Some(0), 1)? },
            Call::Truncate => Change::Truncate { name: self.name(None, 0)? },
            Call::Ftruncate => {
                let name = Name { from: Some(self.number(0).cast_signed()), path: Vec::new() };
                Change::Truncate { name }
            }
            Call::Bind => {
                let [socket, address, length, ..] = self.waiting.arguments;
                self.bind(socket, address, length)?
            }
            Call::Socketcall => self.socketcall()?,
            Call::IoUringSetup => return None,
        })
    }

    /// An argument that is an int.
    fn number(&self, index: usize) -> u32 {
        // The kernel looks at the lower half alone, too.
        u32::try_from(self.waiting.arguments.get(index).unwrap_or(&0) & 0xffff_ffff).unwrap_or(0)
    }

    fn name(&self, folder: Option<usize>, path: usize) -> Option<Name> {
        let address = *self.waiting.arguments.get(path)?;
        let path = read_name(self.waiting.pid, address).filter(|path| !path.is_empty())?;
        let from = folder.map(|index| self.number(index).cast_signed());
        Some(Name { from: from.filter(|from| *from != libc::AT_FDCWD), path })
    }

    fn rename(
        &self,
        from: (Option<usize>, usize),
        to: (Option<usize>, usize),
        flags: u32,
    ) -> Option<Change> {
        Some(Change::Rename {
            from: self.name(from.0, from.1)?,
            to: self.name(to.0, to.1)?,
            is_exchange: flags & libc::RENAME_EXCHANGE != 0,
        })
    }

    /// Its flags are the first 64 bits of a `struct open_how`.
    fn openat2(&self) -> Option<Change> {
        let mut flags = [0; 8];
        let address = *self.waiting.arguments.get(2)?;
        read_memory(self.waiting.pid, address, &mut flags).filter(|got| *got == flags.len())?;
        let flags = u32::try_from(u64::from_le_bytes(flags)).ok()?;
        let changes = flags & WRITES != 0;
        changes.then(|| Some(Change::Open { name: self.name(Some(0), 1)?, flags })).flatten()
    }

    fn bind(&self, socket: u64, address: u64, length: u64) -> Option<Change> {
        let mut bytes = [0; 28];
        let length = usize::try_from(length & 0xffff_ffff).ok()?.min(bytes.len());
        let got = read_memory(self.waiting.pid, address, bytes.get_mut(..length)?)?;
        // Port 0 is whichever is free, and nobody's wish.
        let address = parse_address(bytes.get(..got)?).filter(|address| address.port() != 0)?;
        let socket = u32::try_from(socket & 0xffff_ffff).ok()?.cast_signed();
        Some(Change::Bind { socket, address })
    }

    /// `socketcall(SYS_BIND, {socket, address, length})`, all of them of 32 bits.
    fn socketcall(&self) -> Option<Change> {
        let is_32_bits = matches!(self.abi, Abi::I386 | Abi::Arm);
        if !is_32_bits || self.number(0) != SOCKETCALL_BIND {
            return None;
        }
        let mut words = [0; 12];
        let address = *self.waiting.arguments.get(1)?;
        read_memory(self.waiting.pid, address, &mut words).filter(|got| *got == words.len())?;
        let word = |at: usize| {
            let bytes = words.get(at..at + 4)?.try_into().ok()?;
            Some(u64::from(u32::from_le_bytes(bytes)))
        };
        self.bind(word(0)?, word(4)?, word(8)?)
    }
}

const CREAT: u32 = 0o1 | 0o100 | 0o1000;

#[cfg(test)]
#[cfg(target_arch = "x86_64")]
mod tests {
    use super::*;

    fn waiting(abi: Abi, number: u32, arguments: &[u64]) -> Waiting {
        let mut all = [0; 6];
        all[..arguments.len()].copy_from_slice(arguments);
        let pid = i32::try_from(std::process::id()).unwrap();
        Waiting { id: 1, pid, arch: abi.arch(), number, arguments: all }
    }

    fn name(from: Option<i32>, path: &str) -> Name {
        Name { from, path: path.as_bytes().to_vec() }
    }

    #[test]
    fn calls_of_this_process() {
        let (a, b) = (c"a/b", c"/c");
        let (a, b) = (a.as_ptr().addr() as u64, b.as_ptr().addr() as u64);
        let cwd = u64::from(libc::AT_FDCWD.cast_unsigned());
        let how = [0o101_u64, 0, 0];
        let reads = [0_u64, 0, 0];
        let (how, reads) = (how.as_ptr().addr() as u64, reads.as_ptr().addr() as u64);
        let x = Abi::X8664;
        let make = |path: &str| Change::Make { name: name(None, path) };
        for (number, arguments, expected) in [
            (2, &[a, 1][..], Some(Change::Open { name: name(None, "a/b"), flags: 1 })),
            (85, &[b], Some(Change::Open { name: name(None, "/c"), flags: CREAT })),
            (257, &[cwd, a, 2], Some(Change::Open { name: name(None, "a/b"), flags: 2 })),
            (257, &[7, a, 2], Some(Change::Open { name: name(Some(7), "a/b"), flags: 2 })),
            (437, &[cwd, a, how, 24], Some(Change::Open { name: name(None, "a/b"), flags: 0o101 })),
            (437, &[cwd, a, reads, 24], None),
            (437, &[cwd, a, 8, 24], None),
            (
                82,
                &[a, b],
                Some(Change::Rename {
                    from: name(None, "a/b"),
                    to: name(None, "/c"),
                    is_exchange: false,
                }),
            ),
            (
                316,
                &[3, a, cwd, b, 2],
                Some(Change::Rename {
                    from: name(Some(3), "a/b"),
                    to: name(None, "/c"),
                    is_exchange: true,
                }),
            ),
            (87, &[a], Some(Change::Remove { name: name(None, "a/b") })),
            (84, &[a], Some(Change::Remove { name: name(None, "a/b") })),
            (263, &[cwd, b, 0], Some(Change::Remove { name: name(None, "/c") })),
            (86, &[a, b], Some(make("/c"))),
            (88, &[a, b], Some(make("/c"))),
            (265, &[cwd, a, cwd, b, 0], Some(make("/c"))),
            (266, &[a, cwd, b], Some(make("/c"))),
            (133, &[a, 0, 0], Some(make("a/b"))),
            (259, &[cwd, a, 0, 0], Some(make("a/b"))),
            (76, &[a, 0], Some(Change::Truncate { name: name(None, "a/b") })),
            (77, &[5, 0], Some(Change::Truncate { name: name(Some(5), "") })),
            (2, &[8, 1], None),
            (0, &[a], None),
        ] {
            let call = waiting(x, number, arguments);
            assert_eq!(read(&call), expected, "{number} {arguments:x?}");
        }
        let old = waiting(Abi::I386, 2, &[a, 1]);
        assert_eq!(read(&old), None, "the number of another ABI");
    }

    #[test]
    fn sockets_that_are_bound() {
        let mut address = [0_u8; 16];
        address[..2].copy_from_slice(&2_u16.to_ne_bytes());
        address[2..8].copy_from_slice(&[0x1f, 0x90, 127, 0, 0, 1]);
        let at = address.as_ptr().addr() as u64;
        let bind = Change::Bind { socket: 4, address: "127.0.0.1:8080".parse().unwrap() };
        assert_eq!(read(&waiting(Abi::X8664, 49, &[4, at, 16])), Some(bind));
        address[2..4].fill(0);
        let at = address.as_ptr().addr() as u64;
        assert_eq!(read(&waiting(Abi::X8664, 49, &[4, at, 16])), None, "port 0");
        assert_eq!(read(&waiting(Abi::X8664, 49, &[4, at, 3])), None, "half an address");
    }
}
