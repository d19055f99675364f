//! Which system calls of a traced session wait for its holder: a table, and the program for the
//! kernel (classic BPF over `struct seccomp_data`) that is made of it.
//!
//! Reads are free: the flags of `open` and `openat` are looked at by the program itself. Those of
//! `openat2` lie in memory, where a program cannot look, so it always waits. Calls by another ABI
//! of the same machine wait by their own numbers; x32 and ABIs that are not in the table get
//! `ENOSYS`, and so does `io_uring_setup`, whose calls no filter sees.

/// A call that may change something, whatever its number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::session) enum Call {
    Open,
    Creat,
    Openat,
    Openat2,
    Rename,
    Renameat,
    Renameat2,
    Unlink,
    Unlinkat,
    Rmdir,
    Link,
    Linkat,
    Symlink,
    Symlinkat,
    Mknod,
    Mknodat,
    Truncate,
    Ftruncate,
    Bind,
    Socketcall,
    IoUringSetup,
}

/// A way of calling the kernel: `AUDIT_ARCH_*` of `linux/audit.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::session) enum Abi {
    X8664,
    I386,
    Aarch64,
    Arm,
}

impl Abi {
    /// Its number in `linux/audit.h`.
    pub(in crate::session) const fn arch(self) -> u32 {
        match self {
            Self::X8664 => 0xc000_003e,
            Self::I386 => 0x4000_0003,
            Self::Aarch64 => 0xc000_00b7,
            Self::Arm => 0x4000_0028,
        }
    }
}

/// The ABIs of this machine; none: it is not known here, and nothing is traced.
pub(in crate::session) const ABIS: &[Abi] = if cfg!(target_arch = "x86_64") {
    &[Abi::X8664, Abi::I386]
} else if cfg!(target_arch = "aarch64") {
    &[Abi::Aarch64, Abi::Arm]
} else {
    &[]
};

const NONE: u32 = u32::MAX;

/// Each call and its numbers, in the order x86-64, i386, aarch64, arm.
const CALLS: &[(Call, [u32; 4])] = &[
    (Call::Open, [2, 5, NONE, 5]),
    (Call::Creat, [85, 8, NONE, 8]),
    (Call::Openat, [257, 295, 56, 322]),
    (Call::Openat2, [437, 437, 437, 437]),
    (Call::Rename, [82, 38, NONE, 38]),
    (Call::Renameat, [264, 302, 38, 329]),
    (Call::Renameat2, [316, 353, 276, 382]),
    (Call::Unlink, [87, 10, NONE, 10]),
    (Call::Unlinkat, [263, 301, 35, 328]),
    (Call::Rmdir, [84, 40, NONE, 40]),
    (Call::Link, [86, 9, NONE, 9]),
    (Call::Linkat, [265, 303, 37, 330]),
    (Call::Symlink, [88, 83, NONE, 83]),
    (Call::Symlinkat, [266, 304, 36, 331]),
    (Call::Mknod, [133, 14, NONE, 14]),
    (Call::Mknodat, [259, 297, 33, 324]),
    (Call::Truncate, [76, 92, 45, 92]),
    (Call::Truncate, [NONE, 193, NONE, 193]),
    (Call::Ftruncate, [77, 93, 46, 93]),
    (Call::Ftruncate, [NONE, 194, NONE, 194]),
    (Call::Bind, [49, 361, 200, 282]),
    (Call::Socketcall, [NONE, 102, NONE, 102]),
    (Call::IoUringSetup, [425, 425, 425, 425]),
];

/// Flags of an open that may change the file: `O_WRONLY | O_RDWR | O_CREAT | O_TRUNC`, the same on
/// every ABI here.
pub(in crate::session) const WRITES: u32 = 0o1 | 0o2 | 0o100 | 0o1000;
/// `SYS_BIND` of `linux/net.h`, the first argument of `socketcall`.
pub(in crate::session) const SOCKETCALL_BIND: u32 = 2;
/// `__X32_SYSCALL_BIT`.
const X32: u32 = 0x4000_0000;

/// The call that has this number there, if it is one of ours.
pub(in crate::session) fn call(arch: u32, number: u32) -> Option<(Abi, Call)> {
    let abi = *ABIS.iter().find(|abi| abi.arch() == arch)?;
    let row = CALLS.iter().find(|(_, numbers)| numbers[column(abi)] == number && number != NONE)?;
    Some((abi, row.0))
}

fn column(abi: Abi) -> usize {
    match abi {
        Abi::X8664 => 0,
        Abi::I386 => 1,
        Abi::Aarch64 => 2,
        Abi::Arm => 3,
    }
}

// Offsets in `struct seccomp_data`; of arguments the lower half, on a little-endian machine.
const NUMBER: u32 = 0;
const ARCH: u32 = 4;
const fn argument(index: u32) -> u32 {
    16 + 8 * index
}

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const TELL: u32 = libc::SECCOMP_RET_USER_NOTIF;
const NO_SUCH_CALL: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs();

/// One instruction: its code, where to go on when it holds and when not, and its number.
type Line = (u32, u8, u8, u32);

const fn load(offset: u32) -> Line {
    (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, offset)
}
const fn give(answer: u32) -> Line {
    (libc::BPF_RET | libc::BPF_K, 0, 0, answer)
}
const fn unless(test: u32, value: u32, skip: u8) -> Line {
    (libc::BPF_JMP | test | libc::BPF_K, 0, skip, value)
}

/// The program for the ABIs of a machine.
pub(in crate::session) fn program(abis: &[Abi]) -> Vec<libc::sock_filter> {
    let mut lines = Vec::new();
    for abi in abis {
        let block = block(*abi);
        let skip = u8::try_from(block.len()).unwrap_or(u8::MAX);
        lines.extend([load(ARCH), unless(libc::BPF_JEQ, abi.arch(), skip)]);
        lines.extend(block);
    }
    lines.push(give(NO_SUCH_CALL));
    let low = |code: u32| u16::try_from(code).unwrap_or_default();
    lines
        .into_iter()
        .map(|(code, jt, jf, k)| libc::sock_filter { code: low(code), jt, jf, k })
        .collect()
}

/// What is done with the calls of one ABI; every way through it ends in an answer.
fn block(abi: Abi) -> Vec<Line> {
    let mut lines = vec![load(NUMBER)];
    if abi == Abi::X8664 {
        lines.extend([unless(libc::BPF_JGE, X32, 1), give(NO_SUCH_CALL)]);
    }
    for (call, numbers) in CALLS {
        let number = numbers[column(abi)];
        if number == NONE {
            continue;
        }
        let body = match call {
            Call::Open => if_argument(1, libc::BPF_JSET, WRITES),
            Call::Openat => if_argument(2, libc::BPF_JSET, WRITES),
            Call::Socketcall => if_argument(0, libc::BPF_JEQ, SOCKETCALL_BIND),
            Call::IoUringSetup => vec![give(NO_SUCH_CALL)],
            _ => vec![give(TELL)],
        };
        lines.push(unless(libc::BPF_JEQ, number, u8::try_from(body.len()).unwrap_or(u8::MAX)));
        lines.extend(body);
    }
    lines.push(give(ALLOW));
    lines
}

fn if_argument(index: u32, test: u32, value: u32) -> Vec<Line> {
    vec![load(argument(index)), unless(test, value, 1), give(TELL), give(ALLOW)]
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &[Abi] = &[Abi::X8664, Abi::I386, Abi::Aarch64, Abi::Arm];

    /// What the kernel would answer; the lines that it may run are bounded by the program's length.
    fn run(program: &[libc::sock_filter], arch: u32, number: u32, arguments: [u64; 6]) -> u32 {
        let mut data = [0_u8; 64];
        data[0..4].copy_from_slice(&number.to_le_bytes());
        data[4..8].copy_from_slice(&arch.to_le_bytes());
        for (index, value) in arguments.iter().enumerate() {
            data[16 + 8 * index..24 + 8 * index].copy_from_slice(&value.to_le_bytes());
        }
        let (mut at, mut value) = (0, 0);
        for _ in 0..program.len() {
            let line = &program[at];
            let code = u32::from(line.code);
            let holds = match code & 0xf0 {
                _ if code & 7 == libc::BPF_RET => return line.k,
                _ if code & 7 == libc::BPF_LD => {
                    let offset = line.k as usize;
                    value = u32::from_le_bytes(data[offset..offset + 4].try_into().unwrap());
                    at += 1;
                    continue;
                }
                libc::BPF_JEQ => value == line.k,
                libc::BPF_JGE => value >= line.k,
                libc::BPF_JSET => value & line.k != 0,
                other => panic!("a test of another kind: {other}"),
            };
            at += 1 + usize::from(if holds { line.jt } else { line.jf });
        }
        panic!("no answer");
    }

    fn check(
        program: &[libc::sock_filter],
        abi: Abi,
        number: u32,
        arguments: &[u64],
        expected: u32,
    ) {
        let mut all = [0; 6];
        all[..arguments.len()].copy_from_slice(arguments);
        let answer = run(program, abi.arch(), number, all);
        assert_eq!(answer, expected, "{abi:?} {number} {arguments:x?}");
    }

    #[test]
    fn calls_that_change_something_wait_and_others_do_not() {
        let program = program(ALL);
        let (read, write) = (0_u64, 1_u64);
        for (abi, number, arguments, expected) in [
            (Abi::X8664, 0, &[][..], ALLOW),
            (Abi::X8664, 1, &[1], ALLOW),
            (Abi::X8664, 2, &[9, read], ALLOW),
            (Abi::X8664, 2, &[9, 0o2_000_000], ALLOW),
            (Abi::X8664, 2, &[9, write], TELL),
            (Abi::X8664, 2, &[9, 2], TELL),
            (Abi::X8664, 2, &[9, 0o100], TELL),
            (Abi::X8664, 2, &[9, 0o1000], TELL),
            (Abi::X8664, 257, &[0, 9, read], ALLOW),
            (Abi::X8664, 257, &[0, 9, 0o2_001_101], TELL),
            // The upper half of an int argument is nothing to the kernel.
            (Abi::X8664, 257, &[0, 9, 1 << 32], ALLOW),
            (Abi::X8664, 437, &[], TELL),
            (Abi::X8664, 49, &[], TELL),
            (Abi::X8664, 83, &[], ALLOW),
            (Abi::X8664, 425, &[], NO_SUCH_CALL),
            (Abi::X8664, X32 | 2, &[9, write], NO_SUCH_CALL),
            (Abi::X8664, X32, &[], NO_SUCH_CALL),
            (Abi::X8664, u32::MAX, &[], NO_SUCH_CALL),
            (Abi::I386, 5, &[9, write], TELL),
            (Abi::I386, 5, &[9, read], ALLOW),
            (Abi::I386, 2, &[9, write], ALLOW),
            (Abi::I386, 102, &[2], TELL),
            (Abi::I386, 102, &[1], ALLOW),
            (Abi::I386, 193, &[], TELL),
            (Abi::I386, 425, &[], NO_SUCH_CALL),
            (Abi::Aarch64, 56, &[0, 9, write], TELL),
            (Abi::Aarch64, 56, &[0, 9, read], ALLOW),
            (Abi::Aarch64, 200, &[], TELL),
            (Abi::Aarch64, 2, &[9, write], ALLOW),
            (Abi::Arm, 322, &[0, 9, write], TELL),
        ] {
            check(&program, abi, number, arguments, expected);
        }
    }

    #[test]
    fn every_call_of_the_table_is_held_on_every_abi() {
        let program = program(ALL);
        for (call, numbers) in CALLS {
            for abi in ALL {
                let number = numbers[column(*abi)];
                if number == NONE {
                    continue;
                }
                let arguments: &[u64] = match call {
                    Call::Socketcall => &[2],
                    _ => &[1, 1, 1],
                };
                let expected = if *call == Call::IoUringSetup { NO_SUCH_CALL } else { TELL };
                check(&program, *abi, number, arguments, expected);
            }
        }
    }

    #[test]
    fn an_unknown_abi_gets_nothing_by() {
        assert_eq!(run(&program(ALL), 0x1234, 2, [0; 6]), NO_SUCH_CALL);
        assert_eq!(run(&program(&[]), Abi::X8664.arch(), 0, [0; 6]), NO_SUCH_CALL);
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn numbers_are_those_of_the_library() {
        for (number, expected) in [
            (libc::SYS_open, Call::Open),
            (libc::SYS_creat, Call::Creat),
            (libc::SYS_openat, Call::Openat),
            (libc::SYS_openat2, Call::Openat2),
            (libc::SYS_rename, Call::Rename),
            (libc::SYS_renameat, Call::Renameat),
            (libc::SYS_renameat2, Call::Renameat2),
            (libc::SYS_unlink, Call::Unlink),
            (libc::SYS_unlinkat, Call::Unlinkat),
            (libc::SYS_rmdir, Call::Rmdir),
            (libc::SYS_link, Call::Link),
            (libc::SYS_linkat, Call::Linkat),
            (libc::SYS_symlink, Call::Symlink),
            (libc::SYS_symlinkat, Call::Symlinkat),
            (libc::SYS_mknod, Call::Mknod),
            (libc::SYS_mknodat, Call::Mknodat),
            (libc::SYS_truncate, Call::Truncate),
            (libc::SYS_ftruncate, Call::Ftruncate),
            (libc::SYS_bind, Call::Bind),
            (libc::SYS_io_uring_setup, Call::IoUringSetup),
        ] {
            let found = call(Abi::X8664.arch(), u32::try_from(number).unwrap());
            assert_eq!(found, Some((Abi::X8664, expected)));
        }
        assert_eq!(call(Abi::X8664.arch(), 0), None);
        assert_eq!(call(Abi::X8664.arch(), NONE), None);
    }
}
