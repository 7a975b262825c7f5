//! Sentences whose parts name jobs, nodes and queues. The terminal joins them; the page links them.

use std::fmt;

use serde::Serialize;
use trellis_api::visibility::JobRef;

/// A sentence.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Sentence(Vec<Span>);

/// A part of a sentence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Span {
    /// The text.
    pub text: String,
    /// The object that the text names, if it names one.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub object: Option<NamedObject>,
}

/// An object that a span names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum NamedObject {
    /// A job, or external pods.
    Job(JobRef),
    /// The node of this name.
    Node(String),
    /// The queue of this name.
    Queue(String),
}

impl Sentence {
    /// A sentence that names no object.
    #[must_use]
    pub fn plain(text: impl Into<String>) -> Self {
        Self::default().text(text)
    }

    /// Adds text.
    #[must_use]
    pub fn text(self, text: impl Into<String>) -> Self {
        self.push(text.into(), None)
    }

    /// Adds the name of a job.
    #[must_use]
    pub fn job(self, job: &JobRef) -> Self {
        self.push(job.to_string(), Some(NamedObject::Job(job.clone())))
    }

    /// Adds the name of a node.
    #[must_use]
    pub fn node(self, name: &str) -> Self {
        self.push(name.to_owned(), Some(NamedObject::Node(name.to_owned())))
    }

    /// Adds the name of a queue.
    #[must_use]
    pub fn queue(self, name: &str) -> Self {
        self.push(name.to_owned(), Some(NamedObject::Queue(name.to_owned())))
    }

    /// Adds the parts of each item, with a comma between two items.
    #[must_use]
    pub fn list<T>(
        self,
        items: impl IntoIterator<Item = T>,
        add: impl Fn(Self, T) -> Self,
    ) -> Self {
        let mut sentence = self;
        for (index, item) in items.into_iter().enumerate() {
            if index > 0 {
                sentence = sentence.text(", ");
            }
            sentence = add(sentence, item);
        }
        sentence
    }

    fn push(mut self, text: String, object: Option<NamedObject>) -> Self {
        match self.0.last_mut() {
            Some(last) if last.object.is_none() && object.is_none() => last.text.push_str(&text),
            _ if text.is_empty() => {}
            _ => self.0.push(Span { text, object }),
        }
        self
    }
}

impl fmt::Display for Sentence {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|span| out.write_str(&span.text))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn spans_name_objects_and_join_to_the_sentence() {
        let job = JobRef {
            namespace: "ml".to_owned(),
            name: "podgroup.sweep".to_owned(),
        };
        let sentence = Sentence::plain("free 6 ")
            .text("on node ")
            .list(["a", "b"], Sentence::node)
            .text(", held by ")
            .job(&job)
            .text("");
        let text = sentence.to_string();
        assert_eq!(text, "free 6 on node a, b, held by ml/PodGroup/sweep");
        let spans = json!([
            {"text": "free 6 on node "},
            {"text": "a", "node": "a"},
            {"text": ", "},
            {"text": "b", "node": "b"},
            {"text": ", held by "},
            {"text": "ml/PodGroup/sweep", "job": {"namespace": "ml", "name": "podgroup.sweep"}},
        ]);
        assert_eq!(serde_json::to_value(sentence).unwrap(), spans);
    }
}
