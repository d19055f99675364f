//! Columns of text for people.

/// How wide a table for people may be, in characters: what a terminal has at least.
pub(super) const WIDTH_MAX: usize = 80;

/// The rows as `table` shows them, cells of the `free` column cut so far that each line fits into
/// `WIDTH_MAX`; some of it is always shown.
pub(super) fn fitted(heads: &[&str], free: usize, mut rows: Vec<Vec<String>>) -> String {
    const SHOWN_MIN: usize = 12;
    let width = |column: usize, rows: &[Vec<String>]| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(String::as_str);
        cells.chain([heads[column]]).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let others: usize =
        (0..heads.len()).filter(|at| *at != free).map(|at| width(at, &rows) + 2).sum();
    let room = WIDTH_MAX.saturating_sub(others).max(SHOWN_MIN);
    for cell in rows.iter_mut().filter_map(|row| row.get_mut(free)) {
        if cell.chars().count() > room {
            *cell = cell.chars().take(room - 1).chain(['…']).collect();
        }
    }
    table(heads, &rows)
}

/// The rows under their heads, each column as wide as its widest cell; the last one is free.
/// Nothing where there are no rows.
pub(super) fn table(heads: &[&str], rows: &[Vec<String>]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(String::as_str);
        cells.chain([heads[column]]).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<_> = (0..heads.len()).map(width).collect();
    let mut text = String::new();
    let heads: Vec<_> = heads.iter().map(|&head| head.to_owned()).collect();
    for row in std::iter::once(&heads).chain(rows) {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', width + 2 - cell.chars().count()));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_column_gives_way() {
        let long = "x".repeat(200);
        let rows = vec![vec!["a".to_owned(), long.clone(), "1 s".to_owned()]];
        let text = fitted(&["TASK", "ON", "SINCE"], 1, rows);
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH_MAX), "{text}");
        assert!(text.contains("x…"), "{text}");
        let rows = vec![vec![long.clone(), long]];
        assert!(fitted(&["TASK", "ON"], 1, rows).contains("  xxxxxxxxxxx…"));
    }

    #[test]
    fn columns_line_up() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let rows = [row(["häuser", "1", ""]), row(["b", "12345", "why"])];
        assert_eq!(
            table(&["TASK", "N", "REASON"], &rows),
            "TASK    N      REASON\nhäuser  1\nb       12345  why\n"
        );
        assert_eq!(table(&["TASK"], &[]), "");
    }
}
