//! What a holder had to say while no coordinator heard it: `facts.jsonl` beside the transcript, a
//! fact a line. It is read only when the holder itself is gone.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, ErrorKind};
use std::path::Path;

use super::holder::UNHEARD;
use super::wire::Fact;

/// How many facts are read of it: more than a holder keeps.
const FACTS_MAX: usize = 16 * 1024;

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
    for line in BufReader::new(file).lines().take(FACTS_MAX) {
        let Ok(fact) = serde_json::from_str::<Fact>(&line?) else { break };
        if facts.last().is_none_or(|last| last.seq < fact.seq) {
            facts.push(fact);
        }
    }
    Ok(facts)
}
