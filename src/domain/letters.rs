//! Letters that unguessable names are made of: Crockford's base 32 without look-alikes, lower case.

/// The 32 letters, five bits each.
pub const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// Letters of a run's id after its `r-`: 40 bits, enough for names that are unique in a workspace.
pub const RUN_LETTERS: usize = 8;
/// Letters of a ticket, by which a client finds its command again: 130 bits.
pub const TICKET_LETTERS: usize = 26;

/// Letters made of random numbers, one for each.
pub fn letters(random: impl Iterator<Item = u8>) -> String {
    random.map(|number| char::from(ALPHABET[usize::from(number) % ALPHABET.len()])).collect()
}

/// True for a run's id as we make them.
pub fn is_run(id: &str) -> bool {
    id.strip_prefix("r-").is_some_and(|name| {
        name.len() == RUN_LETTERS && name.bytes().all(|byte| ALPHABET.contains(&byte))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_is_recognised() {
        let id = format!("r-{}", letters(0..8));
        assert_eq!(id, "r-01234567");
        assert!(is_run(&id));
        for other in ["r-0123456", "r-012345678", "01234567", "r-0123456/", "r-0123456L"] {
            assert!(!is_run(other), "{other}");
        }
    }
}
