//! What a holder had to say while no coordinator heard it: `facts.jsonl` beside the transcript, a
//! fact a line. It is read only when the holder itself is gone.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, ErrorKind, Read as _};
use std::path::Path;

use super::holder::UNHEARD;
use super::wire::Fact;

/// How much is read of it: several times what a holder writes.
const BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The facts in a session's folder, oldest first, each once. A torn last line is passed over.
///
/// # Errors
/// When the file is there and cannot be read.
pub fn read(transcript: &Path) -> io::Result<Vec<Fact>> {
    let file = match File::open(transcript.join(UNHEARD)) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut facts: Vec<Fact> = Vec::new();
    for line in BufReader::new(file.take(BYTES_MAX)).split(b'\n') {
        let Ok(fact) = serde_json::from_slice::<Fact>(&line?) else { break };
        if facts.last().is_none_or(|last| last.seq < fact.seq) {
            facts.push(fact);
        }
    }
    Ok(facts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_line_costs_no_other() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read(folder.path()).unwrap(), []);
        let whole = "{\"seq\":1,\"body\":{\"output\":{\"end\":7}}}\n\
                     {\"seq\":1,\"body\":{\"output\":{\"end\":7}}}\n\
                     {\"seq\":2,\"body\":{\"answered\":{\"command\":\"c\",\"prompt\":\"ü\"}}}\n";
        let bytes = whole.as_bytes();
        for end in 0..=bytes.len() {
            std::fs::write(folder.path().join(UNHEARD), &bytes[..end]).unwrap();
            let seen: Vec<u64> = read(folder.path()).unwrap().iter().map(|f| f.seq).collect();
            // A line is whole from its last bracket on, its end or not.
            let expected = match end {
                ..37 => vec![],
                _ if end < bytes.len() - 1 => vec![1],
                _ => vec![1, 2],
            };
            assert_eq!(seen, expected, "{end}");
        }
    }
}
