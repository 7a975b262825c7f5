//! The files of a simulation, object by object, and what is wrong with them.

use std::path::PathBuf;

use trellis_api::document::{self, Problem};

use crate::plan::input;
use crate::source::Source;
use trellis_simulate::scenario::{KIND, Scenario};

/// Everything that the files hold.
#[derive(Default)]
pub(super) struct Files {
    pub(super) scenarios: Vec<(Scenario, Source)>,
    /// What is there at the beginning, in the order of the files.
    pub(super) objects: Vec<Source>,
    pub(super) problems: Vec<Problem>,
}

impl Files {
    /// Reads all files, whatever is wrong with some.
    pub(super) fn read(paths: &[PathBuf]) -> Self {
        let mut files = Self::default();
        for path in paths {
            let file = input::shown(path);
            match input::text(path) {
                Ok(text) => files.file(&text, &file),
                Err(error) => {
                    let problem = Problem::of_file(format!("cannot be read: {error}"));
                    files.problems.push(problem.in_file(file));
                }
            }
        }
        files
    }

    fn file(&mut self, text: &str, file: &str) {
        for found in document::read(text) {
            let document = match found {
                Ok(document) => document,
                Err(problem) => {
                    self.problems.push(problem.in_file(file));
                    continue;
                }
            };
            let source = Source {
                document,
                file: file.to_owned(),
            };
            if !source.is(KIND.1) {
                self.objects.push(source);
                continue;
            }
            match source.document.valid::<Scenario>() {
                Ok(scenario) => self.scenarios.push((scenario, source)),
                Err(problems) => self.problems.extend(source.all(problems)),
            }
        }
    }
}
