//! What others have said, fit for one line of a terminal.

/// The text without what would move the cursor or colour the screen: what a container or a
/// kubelet says is nobody's to command a terminal with. Lines become one.
#[must_use]
pub fn clean(text: &str) -> String {
    let stripped = anstream::adapter::strip_str(text).to_string();
    let words: Vec<String> = stripped
        .split_whitespace()
        .map(|word| word.chars().filter(|c| !c.is_control()).collect())
        .collect();
    words.join(" ")
}

/// The last line that says anything.
#[must_use]
pub fn last_line(text: &str) -> Option<String> {
    let mut lines = text.lines().rev().map(clean);
    lines.find(|line| !line.is_empty())
}
