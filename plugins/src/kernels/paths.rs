//! Visible columns of every row as lists: a row of a tree sees at most its depth + 1 of all rows.

/// Columns that each row sees, ascending. Rebuilding reuses the memory.
#[derive(Debug, Default)]
pub(super) struct ColumnLists {
    ends: Vec<usize>,
    columns: Vec<u32>,
}

impl ColumnLists {
    /// Reads the lists from a mask [rows, rows].
    pub(super) fn rebuild(&mut self, mask: &[bool], rows: usize) {
        const STEP: usize = 16;
        self.ends.clear();
        self.columns.clear();
        for row in 0..rows {
            let mask = &mask[row * rows..][..rows];
            // Most of a tree's mask is empty and most of a chain's is full: read it in steps.
            for (step, part) in mask.chunks(STEP).enumerate() {
                let first = (step * STEP) as u32;
                if part.iter().fold(true, |all, seen| all & *seen) {
                    self.columns.extend(first..first + part.len() as u32);
                } else if part.iter().fold(false, |any, seen| any | *seen) {
                    let seen = part.iter().enumerate().filter(|(_, seen)| **seen);
                    self.columns.extend(seen.map(|(at, _)| first + at as u32));
                }
            }
            self.ends.push(self.columns.len());
        }
    }

    /// Drops the pairs (row, column) that `keep` rejects.
    pub(super) fn retain(&mut self, keep: impl Fn(usize, usize) -> bool) {
        let (mut from, mut kept) = (0, 0);
        for (row, end) in self.ends.iter_mut().enumerate() {
            for at in from..*end {
                let column = self.columns[at];
                if keep(row, column as usize) {
                    self.columns[kept] = column;
                    kept += 1;
                }
            }
            from = *end;
            *end = kept;
        }
        self.columns.truncate(kept);
    }

    /// Number of pairs (row, column) in all lists.
    pub(super) fn pairs(&self) -> usize {
        self.columns.len()
    }

    /// Columns that `row` sees.
    #[inline(always)]
    pub(super) fn row(&self, row: usize) -> &[u32] {
        let start = if row == 0 { 0 } else { self.ends[row - 1] };
        &self.columns[start..self.ends[row]]
    }

    /// Whether every row sees exactly the rows up to itself.
    pub(super) fn is_chain(&self) -> bool {
        let rows = self.ends.len();
        self.columns.len() == rows * (rows + 1) / 2 && (0..rows).all(|row| self.is_triangular(row))
    }

    /// Whether every row sees itself and nothing after itself, as `ancestors` must.
    pub(super) fn is_topological(&self) -> bool {
        (0..self.ends.len()).all(|row| self.is_triangular(row))
    }

    fn is_triangular(&self, row: usize) -> bool {
        self.row(row).last().is_some_and(|last| *last as usize == row)
    }
}
