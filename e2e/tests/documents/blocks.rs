//! The fenced blocks of a Markdown text.

/// A fenced block.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FencedBlock {
    /// The line number of its first line, from 1.
    pub(crate) line: usize,
    /// The language of the block in lower case, such as `yaml`.
    pub(crate) language: String,
    /// The heading above the block, empty before the first heading.
    pub(crate) heading: String,
    /// The content, without the indentation of the fence.
    pub(crate) text: String,
}

/// Returns the blocks marked `yaml` or `yml`, in their order.
pub(crate) fn yaml_blocks(markdown: &str) -> Vec<FencedBlock> {
    let mut blocks = all_blocks(markdown);
    blocks.retain(|block| matches!(block.language.as_str(), "yaml" | "yml"));
    blocks
}

/// Returns all blocks in their order. A closing fence has at least as many of the same characters
/// as the opening one (CommonMark 4.5).
pub(crate) fn all_blocks(markdown: &str) -> Vec<FencedBlock> {
    let mut blocks = Vec::new();
    let mut open: Option<(String, usize, FencedBlock)> = None;
    let mut heading = String::new();
    for (index, line) in markdown.lines().enumerate() {
        let bare = line.trim_start();
        let indent = line.len() - bare.len();
        match &mut open {
            None => {
                let fence: String = fence_marker(bare);
                if fence.len() >= 3 {
                    let info = bare[fence.len()..].trim().to_lowercase();
                    let language = info.split([' ', ',', '{']).next().unwrap_or_default();
                    let block = FencedBlock {
                        line: index + 2,
                        language: language.to_owned(),
                        heading: heading.clone(),
                        text: String::new(),
                    };
                    open = Some((fence, indent, block));
                } else if let Some((_, title)) = line
                    .split_once(' ')
                    .filter(|(level, _)| level.chars().all(|c| c == '#') && !level.is_empty())
                {
                    heading = title.trim().to_owned();
                }
            }
            Some((opened, _, _)) if closes_fence(bare, opened) => {
                blocks.extend(open.take().map(|(_, _, block)| block));
            }
            Some((_, indent, block)) => {
                let spaces = line.len() - line.trim_start_matches(' ').len();
                block.text.push_str(&line[spaces.min(*indent)..]);
                block.text.push('\n');
            }
        }
    }
    blocks
}

fn fence_marker(bare: &str) -> String {
    let first = bare.chars().next().filter(|c| matches!(c, '`' | '~'));
    bare.chars().take_while(|c| Some(*c) == first).collect()
}

fn closes_fence(bare: &str, opened: &str) -> bool {
    let fence = fence_marker(bare);
    fence.starts_with(opened) && bare[fence.len()..].trim().is_empty()
}

#[test]
fn yaml_blocks_excludes_other_languages() {
    let text = "
# Title

```sh
kubectl apply -f - # ```yaml
```

```yaml
a: 1
b: |
  ```
  c
```

1. Item

   ~~~yml title
   c:
     d: 2
   ~~~

````yaml
e: 3
```
````
";
    // The inner fence ends the second block, as in the rendered page.
    let block = |line, language: &str, text: &str| FencedBlock {
        line,
        language: language.to_owned(),
        heading: "Title".to_owned(),
        text: text.to_owned(),
    };
    let found = yaml_blocks(text);
    assert_eq!(found[0], block(9, "yaml", "a: 1\nb: |\n"));
    let shell = all_blocks(text).remove(0);
    assert_eq!(shell, block(5, "sh", "kubectl apply -f - # ```yaml\n"));
    let rest = yaml_blocks(&text.replace("b: |\n  ```\n  c\n", ""));
    assert_eq!(
        rest,
        [
            block(9, "yaml", "a: 1\n"),
            block(15, "yml", "c:\n  d: 2\n"),
            block(20, "yaml", "e: 3\n```\n")
        ]
    );
}
