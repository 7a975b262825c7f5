//! The parts of an image's name, as container runtimes take it apart
//! (github.com/distribution/reference).

/// An image, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ImageName {
    pub(super) registry: Option<String>,
    pub(super) repository: String,
    pub(super) tag: Option<String>,
    pub(super) digest: Option<String>,
}

impl ImageName {
    /// Splits the name of an image into its parts. The parts of an invalid name match no
    /// allow-list, and the runtime refuses the image.
    pub(super) fn parse(name: &str) -> Self {
        let (rest, digest) = match name.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest.to_owned())),
            None => (name, None),
        };
        // Only behind the last / is a colon a tag's: before it it is a port's.
        let path = rest
            .rfind('/')
            .map_or(rest, |at| rest.get(at..).unwrap_or(rest));
        let (rest, tag) = match rest.rsplit_once(':') {
            Some((rest, tag)) if path.contains(':') => (rest, Some(tag.to_owned())),
            _ => (rest, None),
        };
        let registry = rest.split_once('/').filter(|(host, _)| is_host(host));
        let (registry, repository) = match registry {
            // Host names ignore case, and policies do not.
            Some((host, path)) => (Some(host.to_ascii_lowercase()), path),
            None => (None, rest),
        };
        Self {
            registry,
            repository: repository.to_owned(),
            tag,
            digest,
        }
    }
}

/// A first part is a host if it could not be a path: by a dot, a port, upper
/// case, or as localhost.
fn is_host(part: &str) -> bool {
    part.contains(['.', ':']) || part == "localhost" || part.chars().any(|c| c.is_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn image_name_splits_as_container_runtimes_split_it() {
        let parts = |name: &str| {
            let ImageName {
                registry,
                repository,
                tag,
                digest,
            } = ImageName::parse(name);
            let word = |part: Option<String>| part.unwrap_or_else(|| "-".to_owned());
            [word(registry), repository, word(tag), word(digest)].join(" ")
        };
        for (name, expected) in [
            ("train", "- train - -"),
            ("train:1", "- train 1 -"),
            ("team/train:1", "- team/train 1 -"),
            (
                "registry.example/team/train",
                "registry.example team/train - -",
            ),
            (
                "Registry.Example:5000/Team:1",
                "registry.example:5000 Team 1 -",
            ),
            ("localhost/train", "localhost train - -"),
            ("localhost:5000/train", "localhost:5000 train - -"),
            ("LOCAL/train", "local train - -"),
            (
                "registry.example/a@sha256:00",
                "registry.example a - sha256:00",
            ),
            (
                "registry.example:1/a:2@sha256:00",
                "registry.example:1 a 2 sha256:00",
            ),
            // Neither is a valid image name; their parts match no allow-list.
            ("registry.example", "- registry.example - -"),
            ("", "-  - -"),
            ("a/é:ü", "- a/é ü -"),
        ] {
            assert_eq!(parts(name), expected, "{name}");
        }
    }
}
