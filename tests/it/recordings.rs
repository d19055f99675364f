//! What real programs sent to a terminal of 80 columns and 24 rows, and the text that is to be made
//! of it: `tests/recordings/NAME.raw` and `NAME.txt`.

use std::path::{Path, PathBuf};

use callboard::domain::session::Size;
use callboard::transcript::clean::{Cleaned, Cleaner};
use callboard::transcript::decode::{Hint, decode};
use callboard::transcript::find::Finder;
use callboard::transcript::live::LiveDecoder;
use callboard::transcript::modes::Modes;
use callboard::transcript::screen::{Screen, Tail, of_tail};

const SIZE: Size = Size { cols: 80, rows: 24 };
/// Those in which a program uses the alternate screen.
const FULL_SCREEN: [&str; 3] = ["dialog", "less", "vim"];

fn recordings() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.retain(|file| file.extension().is_some_and(|kind| kind == "raw"));
    files
        .into_iter()
        .map(|file| {
            let name = file.file_stem().unwrap().to_string_lossy().into_owned();
            (name, std::fs::read(file).unwrap())
        })
        .collect()
}

fn text_of(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings");
    std::fs::read_to_string(folder.join(format!("{name}.txt"))).unwrap()
}

fn recording(name: &str) -> Vec<u8> {
    recordings().into_iter().find(|(found, _)| found == name).unwrap().1
}

fn cleaned(bytes: &[u8], piece: usize) -> Cleaned {
    let (mut decoder, mut cleaner) = (LiveDecoder::new(Hint::default()), Cleaner::new(SIZE));
    let mut text = String::new();
    for piece in bytes.chunks(piece) {
        text.clear();
        decoder.feed(piece, &mut text);
        cleaner.feed(&text);
    }
    text.clear();
    decoder.finish(&mut text);
    cleaner.feed(&text);
    cleaner.finish()
}

#[test]
fn real_programs_leave_the_text_that_a_person_saw() {
    let recordings = recordings();
    assert!(recordings.len() >= 10);
    for (name, bytes) in recordings {
        let seen = callboard::transcript::clean::clean(&decode(&bytes, &Hint::default()), SIZE);
        assert_eq!(seen.text, text_of(&name), "{name}");
        assert_eq!(seen.full_screen, FULL_SCREEN.contains(&name.as_str()), "{name}");
    }
}

#[test]
fn real_programs_cut_anywhere_leave_the_same_text() {
    for (name, bytes) in recordings() {
        let whole = cleaned(&bytes, bytes.len());
        for piece in [1, 2, 3, 7, 100, 1021] {
            assert_eq!(cleaned(&bytes, piece), whole, "{name} in pieces of {piece}");
        }
        for cut in 0..bytes.len().min(3000) {
            let (mut before, mut after) = (Modes::default(), Modes::default());
            before.feed(&bytes);
            after.feed(&bytes[..cut]);
            after.feed(&bytes[cut..]);
            assert_eq!(before, after, "{name} cut at {cut}");
        }
    }
}

/// A pattern is found in the first bytes after which a person would have seen it.
#[test]
fn patterns_are_found_in_what_real_programs_print() {
    for (name, pattern, line) in [
        ("cargo", "^warning: unused", "warning: unused variable: `unused`"),
        (
            "cargo",
            r"Building.* 1/3",
            "    Building [========>                    ] 1/3: ryu                         ",
        ),
        ("npm", "^added [0-9]+ packages", "added 3 packages in 848ms"),
        ("apt", "^Setting up sl", "Setting up sl (5.02-1+b1) ..."),
        ("git", r"Receiving objects:  50%", "Receiving objects:  50% (201/402)"),
        ("pytest", "^FAILED ", "FAILED test_demo.py::test_three - assert [1, 2, 3] == [1, 2, 4]"),
    ] {
        let bytes = recording(name);
        for piece in [1, 10, 4096] {
            let mut finder = Finder::clean(pattern, SIZE, Hint::default()).unwrap();
            let found = bytes.chunks(piece).find_map(|piece| finder.feed(piece).cloned());
            let found = found.unwrap_or_else(|| panic!("{pattern} in {name}"));
            // In small pieces it is found as soon as it is there, before the line has ended.
            assert!(line.starts_with(&found.text), "{pattern}: {:?}", found.text);
            if piece == 4096 {
                assert_eq!(found.text, line, "{pattern}");
            }
        }
    }
}

fn picture(bytes: &[u8]) -> Screen {
    let tail = Tail { bytes, before: None, size: SIZE, resizes: &[] };
    of_tail(&tail, &Hint::default()).screen()
}

#[test]
fn screens_of_full_screen_programs() {
    let bytes = recording("vim");
    let typed = memchr::memmem::find(&bytes, b" world\r\n2nd").unwrap() + 11;
    let screen = picture(&bytes[..typed]);
    assert_eq!(screen.lines[..3], ["hello world", "2nd", "~"]);
    assert!(screen.full_screen);
    assert_eq!((screen.cursor.row, screen.cursor.col), (1, 3));
    let screen = picture(&bytes);
    assert_eq!(screen.lines[..2], ["before", "after"]);
    assert!(!screen.full_screen);

    let bytes = recording("dialog");
    let asked = memchr::memmem::find(&bytes, b"Go on?").unwrap() + 6;
    let screen = picture(&bytes[..asked]);
    assert!(screen.lines[9].contains("│ Go on?"), "{screen:#?}");
    let mut modes = Modes::default();
    modes.feed(&bytes[..asked]);
    assert!(modes.application_cursor && modes.application_keypad && !modes.alternate_screen);
    modes.feed(&bytes[asked..]);
    assert_eq!(modes, Modes::default());
}
