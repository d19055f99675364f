//! Columns of text for people.

/// How wide a table for people may be, in characters: what a terminal has at least.
pub(super) const WIDTH_MAX: usize = 80;

/// A column that has to give way keeps so many characters.
const COLUMN_MIN: usize = 8;

/// The rows as `table` shows them, cells cut so far that each line fits into `WIDTH_MAX`: the widest
/// column gives way first.
pub(super) fn fitted(heads: &[&str], mut rows: Vec<Vec<String>>) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(String::as_str);
        cells.chain([heads[column]]).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let mut widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let between = 2 * heads.len().saturating_sub(1);
    while widths.iter().sum::<usize>() + between > WIDTH_MAX
        && let Some(widest) = widths.iter_mut().rev().max_by_key(|width| **width)
        && *widest > COLUMN_MIN
    {
        *widest -= 1;
    }
    for row in &mut rows {
        for (cell, width) in row.iter_mut().zip(&widths) {
            if cell.chars().count() > *width {
                *cell = cell.chars().take(width - 1).chain(['…']).collect();
            }
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
    fn the_widest_column_gives_way() {
        let long = "x".repeat(200);
        let rows = vec![vec!["a task".to_owned(), long.clone(), "1 s".to_owned()]];
        let text = fitted(&["TASK", "ON", "SINCE"], rows);
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH_MAX), "{text}");
        assert!(text.contains("a task  x") && text.contains("x…"), "{text}");
        let text = fitted(&["TASK", "ON"], vec![vec![long.clone(), long]]);
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH_MAX), "{text}");
        assert_eq!(text.matches('…').count(), 2);
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
