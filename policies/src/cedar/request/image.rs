//! An image as a resource, and the parts of its name, as container runtimes take it apart
//! (github.com/distribution/reference).

use cedar_policy::RestrictedExpression as Value;
use trellis_api::job_policy::TestResource;

use super::resource::{
    InvalidTestRequest, RequestBuildError, Resource, ResourceEntity, collect_attributes,
    required_name,
};

/// An image, as the job writes it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ImageReference(pub String);

impl Resource for ImageReference {
    fn from_test(_: &str, resource: &TestResource) -> Result<Self, InvalidTestRequest> {
        required_name(resource).map(Self)
    }

    fn entity(&self) -> Result<Option<ResourceEntity<'_>>, RequestBuildError> {
        let image = ImageName::parse(&self.0);
        Ok(Some(ResourceEntity {
            id: self.0.clone(),
            attributes: collect_attributes([
                ("registry", image.registry.map(Value::new_string)),
                ("repository", Some(Value::new_string(image.repository))),
                ("tag", image.tag.map(Value::new_string)),
                ("digest", image.digest.map(Value::new_string)),
            ]),
            namespace: None,
        }))
    }

    fn longest_text(&self) -> &str {
        &self.0
    }

    fn describe(&self, kind: &str) -> Option<String> {
        Some(format!("{kind} {:?}", self.0))
    }
}

/// The parts of an image's name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ImageName {
    registry: Option<String>,
    repository: String,
    tag: Option<String>,
    digest: Option<String>,
}

impl ImageName {
    /// Splits the name of an image into its parts. The parts of an invalid name match no
    /// allow-list, and the runtime refuses the image.
    fn parse(name: &str) -> Self {
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
