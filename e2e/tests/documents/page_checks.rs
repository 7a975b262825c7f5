//! Checks of the pages: each link has a target, the index lists every page, and each alert has a
//! documented action. These tests only read files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use super::{document_files, files_below, repository_root};

/// A link within the repository.
#[derive(Debug, PartialEq, Eq)]
struct PageLink {
    /// The line number, from 1.
    line: usize,
    /// The target as written.
    target: String,
}

/// Returns the lines outside of code, with their numbers. A closing fence has at least as many of
/// the same characters as the opening one (CommonMark 4.5).
fn prose_lines(markdown: &str) -> Vec<(usize, &str)> {
    let mut fence: Option<String> = None;
    let mut lines = Vec::new();
    for (index, line) in markdown.lines().enumerate() {
        let bare = line.trim_start();
        let first = bare.chars().next().filter(|c| matches!(c, '`' | '~'));
        let run: String = bare.chars().take_while(|c| Some(*c) == first).collect();
        match &fence {
            None if run.len() >= 3 => fence = Some(run),
            None => lines.push((index + 1, line)),
            Some(open) if run.starts_with(open.as_str()) && bare[run.len()..].trim().is_empty() => {
                fence = None;
            }
            Some(_) => {}
        }
    }
    lines
}

/// Replaces code spans by spaces. The next run of backticks with the same length closes a run
/// (CommonMark 6.1).
fn blank_code_spans(line: &str) -> String {
    let mut rest = line;
    let mut out = String::new();
    while let Some(start) = rest.find('`') {
        let run = rest[start..].chars().take_while(|c| *c == '`').count();
        let inside = &rest[start + run..];
        let end = closing_backticks(inside, run);
        out.push_str(&rest[..start]);
        let code = match end {
            Some(end) => &rest[start..start + run + end + run],
            // This run opens no code span, so it is plain text.
            None => &rest[start..start + run],
        };
        out.extend(code.chars().map(|_| ' '));
        rest = &rest[start + code.len()..];
    }
    out.push_str(rest);
    out
}

/// Returns the index of a run of exactly `run` backticks.
fn closing_backticks(text: &str, run: usize) -> Option<usize> {
    let mut at = 0;
    while let Some(next) = text[at..].find('`') {
        let start = at + next;
        let found = text[start..].chars().take_while(|c| *c == '`').count();
        if found == run {
            return Some(start);
        }
        at = start + found;
    }
    None
}

/// Returns the links `[text](target)` and `[label]: target` within the repository.
fn find_links(markdown: &str) -> Vec<PageLink> {
    let mut links = Vec::new();
    for (line, text) in prose_lines(markdown) {
        let text = blank_code_spans(text);
        let inline = text.split("](").skip(1).filter_map(|rest| {
            let target = rest.split(')').next()?;
            // A space separates the target from a title.
            target.split_whitespace().next()
        });
        let reference = text.strip_prefix('[').and_then(|rest| {
            let (_, target) = rest.split_once("]: ")?;
            target.split_whitespace().next()
        });
        for target in inline.chain(reference) {
            let target = target.trim_matches(['<', '>']);
            if !target.contains("://") && !target.starts_with("mailto:") {
                let target = target.to_owned();
                links.push(PageLink { line, target });
            }
        }
    }
    links
}

/// Returns the anchors of a page: those that GitHub creates for its headings, and explicit ones.
fn page_anchors(markdown: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for (_, line) in prose_lines(markdown) {
        let named = line.split("<a ").skip(1).filter_map(|rest| {
            let rest = rest.split_once("id=\"").or(rest.split_once("name=\""));
            rest.and_then(|(_, rest)| rest.split('"').next())
        });
        anchors.extend(named.map(str::to_owned));
        let Some(heading) = heading_text(line) else {
            continue;
        };
        // The second heading with a name has the anchor name-1.
        let name = heading_anchor(heading);
        let numbered = (1..).map(|n| format!("{name}-{n}"));
        let mut names = std::iter::once(name.clone()).chain(numbered);
        anchors.extend(names.find(|name| !anchors.contains(name)));
    }
    anchors
}

/// Returns the text of an ATX heading: up to three spaces, one to six `#`, and a space.
fn heading_text(line: &str) -> Option<&str> {
    let bare = line.trim_start_matches(' ');
    let text = bare.trim_start_matches('#');
    let level = bare.len() - text.len();
    let is_heading = line.len() - bare.len() < 4 && (1..=6).contains(&level);
    text.strip_prefix(' ')
        .filter(|_| is_heading)
        .map(str::trim)
        .map(|text| text.trim_end_matches('#').trim_end())
}

/// Returns the anchor of a heading in lower case. Letters, digits, `-` and `_` stay, a space
/// becomes `-`, and all other characters are removed. A link is replaced by its text.
fn heading_anchor(heading: &str) -> String {
    let mut text = String::new();
    let mut rest = heading;
    while let Some((before, after)) = rest.split_once("](") {
        text.push_str(before);
        rest = after.split_once(')').map_or("", |(_, rest)| rest);
    }
    text.push_str(rest);
    text.to_lowercase()
        .chars()
        .filter_map(|c| match c {
            ' ' => Some('-'),
            c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
            _ => None,
        })
        .collect()
}

/// Returns the path without `.` and `..`. None: it leads out of its root.
fn normalized_path(path: &Path) -> Option<PathBuf> {
    let mut settled = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                if !settled.pop() {
                    return None;
                }
            }
            part => settled.push(part),
        }
    }
    Some(settled)
}

/// The text of each page, by its path in the repository.
fn all_pages() -> BTreeMap<PathBuf, String> {
    let root = repository_root();
    document_files()
        .into_iter()
        .map(|(path, text)| (path.strip_prefix(&root).unwrap().to_owned(), text))
        .collect()
}

/// Returns the target file of a link and its anchor. None: the target is outside of the repository.
fn link_target(page: &Path, target: &str) -> Option<(PathBuf, Option<String>)> {
    let (file, anchor) = match target.split_once('#') {
        Some((file, anchor)) => (file, Some(anchor.to_owned())),
        None => (target, None),
    };
    let file = match file {
        "" => page.to_owned(),
        file => normalized_path(&page.parent()?.join(file))?,
    };
    Some((file, anchor))
}

#[test]
fn every_link_has_a_target() {
    let mut pages = all_pages();
    let changelog = std::fs::read_to_string(repository_root().join("CHANGELOG.md")).unwrap();
    pages.insert("CHANGELOG.md".into(), changelog);
    let mut wrong = Vec::new();
    let mut followed: usize = 0;
    for (page, text) in &pages {
        for PageLink { line, target } in find_links(text) {
            let reason = match link_target(page, &target) {
                None => Some("leads out of the repository"),
                Some((file, _)) if !repository_root().join(&file).exists() => Some("is not there"),
                Some((file, Some(anchor))) => match pages.get(&file) {
                    Some(text) if page_anchors(text).contains(&anchor) => None,
                    Some(_) => Some("has no such heading"),
                    None => Some("is no page with headings"),
                },
                Some(_) => None,
            };
            followed += 1;
            wrong.extend(
                reason.map(|reason| format!("{}:{line}: {target} {reason}", page.display())),
            );
        }
    }
    assert!(followed > 100, "only {followed} links were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn index_lists_every_page() {
    let pages = all_pages();
    let index = Path::new("docs/README.md");
    let linked: BTreeSet<PathBuf> = find_links(&pages[index])
        .iter()
        .filter_map(|link| Some(link_target(index, &link.target)?.0))
        .collect();
    let missing: Vec<&PathBuf> = pages
        .keys()
        .filter(|page| page.starts_with("docs") && *page != index && !linked.contains(*page))
        .collect();
    assert!(missing.is_empty(), "docs/README.md lacks {missing:?}");
}

#[test]
fn every_alert_has_a_remedy() {
    let alerts = repository_root().join("charts/trellis/files/alerts.yaml");
    let alerts = std::fs::read_to_string(alerts).unwrap();
    let names: BTreeSet<&str> = alerts
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "))
        .collect();
    assert!(names.len() > 5, "only {names:?}");
    let pages = all_pages();
    let page = prose_lines(&pages[Path::new("docs/on-call.md")]);
    let sections: BTreeSet<&str> = page
        .iter()
        .filter_map(|(_, line)| heading_text(line))
        .filter(|heading| heading.starts_with("Trellis"))
        .collect();
    assert_eq!(
        sections, names,
        "docs/on-call.md must have one section per alert"
    );
}

/// Each text of the table in docs/on-call.md is a string literal in the operator's crates.
#[test]
fn log_messages_in_on_call_docs_exist_in_the_code() {
    let pages = all_pages();
    let mut page = prose_lines(&pages[Path::new("docs/on-call.md")]).into_iter();
    page.find(|(_, line)| heading_text(line) == Some("The log"))
        .unwrap();
    let section = page.take_while(|(_, line)| heading_text(line).is_none());
    let rows = section.filter_map(|(_, line)| line.strip_prefix("| `"));
    let words = rows.filter_map(|row| row.split(" | ").next());
    let words: BTreeSet<&str> = words
        .flat_map(|cell| cell.split("`, `"))
        .map(|words| words.trim_end_matches('`'))
        .collect();
    assert!(words.len() > 8, "only {words:?}");
    let crates = [
        "src",
        "gang/src",
        "cache/src",
        "dispatch/src",
        "controller/src",
        "server/src",
    ];
    let sources = crates.map(|crate_folder| {
        files_below(
            &repository_root().join("operator").join(crate_folder),
            &[".rs"],
        )
        .unwrap()
    });
    let texts = sources
        .iter()
        .flat_map(BTreeMap::values)
        .flat_map(|source| source.split('"').skip(1).step_by(2));
    let texts: Vec<&str> = texts.collect();
    let unsaid = words
        .iter()
        .filter(|words| !texts.iter().any(|text| text.contains(**words)));
    let unsaid: Vec<_> = unsaid.collect();
    assert!(unsaid.is_empty(), "no line of the log has {unsaid:?}");
}

#[test]
fn links_in_code_are_ignored() {
    let text = "
See [a](a.md), [b](../b.md#c \"title\") and [out](https://example.com/).
`[code](no.md)`, ``a ` [code](no.md)``, a lone ` and [c](#d).

```sh
[fence](no.md)
```

    [d]: no.md
[e]: <e.md>
";
    let found: Vec<(usize, String)> = find_links(text)
        .into_iter()
        .map(|l| (l.line, l.target))
        .collect();
    let expected = [(2, "a.md"), (2, "../b.md#c"), (3, "#d"), (10, "e.md")];
    let expected = expected.map(|(line, target)| (line, target.to_owned()));
    assert_eq!(found, expected);
}

#[test]
fn anchors_match_github() {
    let text = "
# What's `up_there`, you?
## A [link](b.md#c) here
## Twice
### Twice
```
# no heading
```
#none
<a id=\"own\"></a>
";
    let expected = [
        "whats-up_there-you",
        "a-link-here",
        "twice",
        "twice-1",
        "own",
    ];
    assert_eq!(page_anchors(text), expected.map(str::to_owned).into());
}
