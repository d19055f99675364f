//! (c) Bulk output through a session, recorded, against a reader on a bare PTY that throws
//! everything away; and the memory that it takes.

use std::fmt::Write as _;

use crate::house::House;
use crate::measure::{Series, row, seconds, target};
use crate::peer;

const MEGABYTES: usize = 60;
const ROUNDS: usize = 5;

pub fn run() {
    let house = House::new();
    let log = build_log();
    house.write("build.log", &log);
    let file = house.workspace().join("build.log");
    let print = format!("cat '{}'", file.display());
    let short = format!("yes | head -c {}", 8 * 1024 * 1024);
    let mut client = house.client();
    for (what, command, bytes) in
        [("build output", print.as_str(), log.len()), ("`yes`", short.as_str(), 8 * 1024 * 1024)]
    {
        let megabytes = bytes as f64 / 1e6;
        let (mut ours, mut bare) = (Vec::new(), Vec::new());
        let before = memory(&house);
        for _ in 0..ROUNDS {
            bare.push(megabytes / seconds(|| assert!(peer::bare_read(command) >= bytes as u64)));
            ours.push(
                megabytes
                    / seconds(|| {
                        let result = client.exec(Some("keep"), command);
                        assert_eq!(result.exit_code, Some(0), "{:?}", result.reason);
                    }),
            );
        }
        let after = memory(&house);
        let (ours, bare) = (Series::new(ours), Series::new(bare));
        let ratio = ours.median() / bare.median();
        row(&format!("{what}: bare reader (limit)"), &bare.shown("MB/s"));
        row(
            &format!("{what}: callboard session"),
            &format!("{}, {ratio:.2} of the limit", ours.shown("MB/s")),
        );
        row(
            &format!("{what}: memory of coordinator and holder"),
            &format!("{before} KiB before, {after} KiB after"),
        );
        if what == "build output" {
            target("at least 0.8 of the bare reader on build output", ratio >= 0.8);
        }
    }
}

/// Lines as compilers and package managers print them, colours included.
fn build_log() -> String {
    let mut log = String::with_capacity(MEGABYTES << 20);
    let mut n = 0;
    while log.len() < MEGABYTES << 20 {
        n += 1;
        match n % 5 {
            0 => writeln!(log, "\x1b[1m\x1b[33mwarning\x1b[0m: unused variable: `value_{n}`"),
            1 => writeln!(
                log,
                "\x1b[1m\x1b[32m   Compiling\x1b[0m crate-{n} v0.{}.{}",
                n % 97,
                n % 13
            ),
            2 => writeln!(log, "  --> src/room_{}/file_{n}.rs:{}:{}", n % 31, n % 997, n % 80),
            3 => writeln!(
                log,
                "gcc -O2 -Wall -Iinclude -c -o build/obj_{n}.o src/module_{}/source_{n}.c",
                n % 71
            ),
            _ => writeln!(
                log,
                "[{:>5}/50000] Building CXX object lib/Target/CMakeFiles/Part{n}.dir/x.cpp.o",
                n % 50000
            ),
        }
        .unwrap();
    }
    log
}

/// Private memory of the coordinator and everything below it, in KiB.
fn memory(house: &House) -> u64 {
    let mut total = 0;
    let mut pids = vec![house.coordinator()];
    while let Some(pid) = pids.pop() {
        total += crate::fresh::private_kib(pid);
        let children =
            std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        pids.extend(children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
    }
    total
}
