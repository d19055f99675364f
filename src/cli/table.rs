//! Columns of text for people.

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
