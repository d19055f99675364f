//! Decoding and cleaning beside a bare copy of the same bytes: megabytes a second on output that
//! only goes forward, on coloured output, and on output that is redrawn all the time.
//!
//! `cargo bench --bench cleaner [-- MEGABYTES]`. Each figure is the median of nine rounds with its
//! spread, and its ratio to the copy, which is measured in turn with it.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a program run by hand")]

use std::hint::black_box;
use std::time::Instant;

use callboard::domain::session::Size;
use callboard::transcript::clean::Cleaner;
use callboard::transcript::decode::{Hint, decode};
use callboard::transcript::find::Finder;
use callboard::transcript::modes::Modes;
use callboard::transcript::screen::render;

const ROUNDS: usize = 9;
/// What a holder reads from a terminal at a time.
const PIECE: usize = 4096;

fn main() {
    let megabytes = std::env::args().filter_map(|word| word.parse().ok()).next().unwrap_or(16);
    let corpora = [
        ("plain build output", 300.0, plain as fn(usize) -> String),
        ("coloured build output", 0.0, coloured),
        ("one progress line", 60.0, progress),
        ("several lines redrawn", 60.0, layers),
        ("a line drawn by its parts", 60.0, spinner),
        ("lines above a status line", 60.0, status),
    ];
    for (name, floor, make) in corpora {
        let text = fill(megabytes * 1_000_000, make);
        println!("{name}, {} MB", text.len() / 1_000_000);
        rate("clean, as a whole", floor, &text, |bytes| cleaned(bytes, bytes.len()));
        rate("clean, in pieces of 4 KiB", floor, &text, |bytes| cleaned(bytes, PIECE));
        rate("modes", 0.0, &text, |bytes| {
            let mut modes = Modes::default();
            bytes.chunks(PIECE).for_each(|piece| modes.feed(piece));
            usize::from(black_box(modes).application_cursor)
        });
        rate("find, clean text", 0.0, &text, |bytes| {
            let mut finder =
                Finder::clean("no such text", Size::default(), Hint::default()).unwrap();
            bytes.chunks(PIECE).filter(|piece| finder.feed(piece).is_some()).count()
        });
    }
    let text = fill(1_000_000, layers);
    rate("the screen after 1 MB", 0.0, &text, |bytes| {
        render(std::str::from_utf8(bytes).unwrap(), Size::default()).lines.len()
    });
}

/// Decodes and cleans as a reader of a transcript does.
fn cleaned(bytes: &[u8], piece: usize) -> usize {
    let mut cleaner = Cleaner::new(Size::default());
    for piece in bytes.chunks(piece) {
        cleaner.feed(&decode(piece, &Hint::default()));
    }
    cleaner.finish().text.len()
}

fn fill(bytes: usize, make: fn(usize) -> String) -> String {
    let mut text = String::with_capacity(bytes + 4096);
    for n in 0.. {
        if text.len() >= bytes {
            break;
        }
        text.push_str(&make(n));
    }
    text
}

fn plain(n: usize) -> String {
    let unit = n % 977;
    match n % 7 {
        0 => format!("   Compiling crate-{unit} v0.{}.{} (registry)\r\n", n % 40, n % 13),
        1 => format!("cc -O2 -Wall -Iinclude -c src/unit_{unit}.c -o build/unit_{unit}.o\r\n"),
        2 => format!("src/unit_{unit}.c:{}:17: warning: unused variable ‘left’\r\n", n % 900),
        3 => format!("   {} |     let value = compute(left, right)?;\r\n", n % 900),
        4 => format!("\t--> src/part/unit_{unit}.rs:{}:9\r\n", n % 900),
        5 => format!("test part::unit_{unit}::works_as_it_should ... ok\r\n"),
        _ => format!("[{}/977] Linking CXX executable bin/program-{unit}\r\n", unit + 1),
    }
}

fn coloured(n: usize) -> String {
    let unit = n % 977;
    format!(
        "\x1b[1m\x1b[32m   Compiling\x1b[0m crate-{unit} v0.{}.1\r\n\x1b[33mwarning\x1b[0m\x1b[1m: \
         unused variable\x1b[0m in unit_{unit}\r\n",
        n % 40
    )
}

fn progress(n: usize) -> String {
    let (done, all) = (n % 400, 400);
    let bar: String = (0..25).map(|at| if at * all < done * 25 { '=' } else { ' ' }).collect();
    let end = if done + 1 == all { "\r\n" } else { "" };
    format!(
        "\r\x1b[K    Building [{bar}] {done}/{all}: crate-{}(bin), crate-{}{end}",
        n % 91,
        n % 57
    )
}

fn layers(n: usize) -> String {
    const LAYERS: usize = 6;
    let mut text = format!("\x1b[{LAYERS}A");
    for layer in 0..LAYERS {
        let done = (n * 7 + layer * 13) % 100;
        let bar = format!("{:<50}", "=".repeat(done / 2));
        text.extend([format!("\x1b[2K{layer:012x}: Downloading [{bar}] {done}.4MB/100MB\r\n")]);
    }
    text
}

fn spinner(n: usize) -> String {
    let frame = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧"][n % 8];
    let end = if n.is_multiple_of(200) { "\n" } else { "" };
    format!(
        "\x1b[1G\x1b[0K\x1b[36m{frame}\x1b[39m reify:package-{}: \x1b[32mtiming\x1b[39m reify \
         in {}ms\x08\x08\x08{end}",
        n % 300,
        n % 1000
    )
}

/// As apt draws: a region that scrolls, and a bar below it that is drawn with the cursor saved.
fn status(n: usize) -> String {
    let begin = if n.is_multiple_of(1000) { "\n\x1b7\x1b[0;39r\x1b8\x1b[1A" } else { "" };
    let bar = format!("{:<60}", "#".repeat(n % 60));
    format!(
        "{begin}\x1b7\x1b[40;0f\x1b[42m\x1b[30mProgress: [{:3}%]\x1b[49m\x1b[39m [{bar}] \x1b8\
         Setting up package-{} (1.{}.0-1) ...\r\n",
        n % 100,
        n % 977,
        n % 13
    )
}

fn rate(what: &str, floor: f64, text: &str, mut read: impl FnMut(&[u8]) -> usize) {
    let bytes = text.as_bytes();
    let mut copy = vec![0; bytes.len()];
    let time = |seconds: &mut Vec<f64>, run: &mut dyn FnMut() -> usize| {
        let start = Instant::now();
        black_box(run());
        seconds.push(start.elapsed().as_secs_f64());
    };
    let (mut copying, mut reading) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        time(&mut copying, &mut || {
            copy.copy_from_slice(black_box(bytes));
            copy.len()
        });
        time(&mut reading, &mut || read(black_box(bytes)));
    }
    let [copying, reading] = [copying, reading].map(|mut seconds| {
        seconds.sort_by(f64::total_cmp);
        [seconds[ROUNDS / 2], seconds[ROUNDS - 1], seconds[0]]
            .map(|seconds| bytes.len() as f64 / seconds / 1e6)
    });
    let verdict = match floor {
        0.0 => String::new(),
        floor if reading[0] >= floor => format!("  (asked: {floor:.0})"),
        floor => format!("  (asked: {floor:.0}: MISSED)"),
    };
    println!(
        "  {what:<28} {:>8.0} MB/s  ({:.0} to {:.0})  {:.3} of a copy at {:.0}{verdict}",
        reading[0],
        reading[1],
        reading[2],
        reading[0] / copying[0],
        copying[0]
    );
}
