//! Discovery documents for kube-apiserver, kubectl and client-go.

use axum::response::Response;
use serde_json::{Map, Value, json};
use trellis_api::visibility::{self, ALL, GROUP, Served, VERSION};

use super::request::{Document, Path};
use crate::endpoint::Failure;

const JSON: &str = "application/json";
const WHOLE: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The document of a path.
pub(super) fn answer(path: &Path) -> Result<Response, Failure> {
    let (content_type, document) = match path {
        Path::Groups { whole: true } => (WHOLE, whole()),
        Path::Groups { whole: false } => (JSON, groups()),
        Path::Group => (JSON, group(true)),
        Path::Resources => (JSON, resources()),
        Path::OpenApi2 => (JSON, swagger()),
        Path::OpenApi3 => (JSON, schemas_are_at()),
        Path::Schemas => (JSON, schemas()),
    };
    let text = serde_json::to_vec(&document).map_err(|_| Failure::unavailable())?;
    Ok(super::document(Document { content_type, text }))
}

fn groups() -> Value {
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": [group(false)]})
}

fn group(alone: bool) -> Value {
    let version = json!({"groupVersion": format!("{GROUP}/{VERSION}"), "version": VERSION});
    let (versions, preferred) = (json!([version]), version);
    if alone {
        json!({"kind": "APIGroup", "apiVersion": "v1", "name": GROUP,
            "versions": versions, "preferredVersion": preferred})
    } else {
        json!({"name": GROUP, "versions": versions, "preferredVersion": preferred})
    }
}

fn resources() -> Value {
    let resources: Vec<Value> = ALL.iter().map(resource).collect();
    json!({"kind": "APIResourceList", "apiVersion": "v1",
        "groupVersion": format!("{GROUP}/{VERSION}"), "resources": resources})
}

fn resource(served: &Served) -> Value {
    json!({
        "name": served.plural, "singularName": served.singular, "namespaced": served.namespaced,
        "kind": served.kind, "verbs": served.verbs, "shortNames": served.short_names,
    })
}

fn whole() -> Value {
    let resources = ALL.iter().map(|served| {
        json!({
            "resource": served.plural, "singularResource": served.singular,
            "responseKind": {"group": GROUP, "version": VERSION, "kind": served.kind},
            "scope": if served.namespaced { "Namespaced" } else { "Cluster" },
            "verbs": served.verbs, "shortNames": served.short_names,
        })
    });
    let resources: Vec<Value> = resources.collect();
    json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {},
        "items": [{
            "metadata": {"name": GROUP, "creationTimestamp": null},
            "versions": [{"version": VERSION, "freshness": "Current", "resources": resources}],
        }],
    })
}

fn info() -> Value {
    json!({"title": "Trellis visibility", "version": VERSION})
}

fn swagger() -> Value {
    json!({"swagger": "2.0", "info": info(), "paths": {}, "definitions": {}})
}

fn schemas_are_at() -> Value {
    let path = format!("apis/{GROUP}/{VERSION}");
    // A new version of the program makes clients read the schema again.
    let hash = env!("CARGO_PKG_VERSION");
    json!({"paths": {path.clone(): {"serverRelativeURL": format!("/openapi/v3/{path}?hash={hash}")}}})
}

/// Schemas of all kinds with their paths, for `kubectl explain`.
fn schemas() -> Value {
    let base = format!("/apis/{GROUP}/{VERSION}");
    let (mut paths, mut kinds) = (Map::new(), Map::new());
    for (served, schema) in visibility::schemas() {
        let name = format!("dev.trellis.visibility.{VERSION}.{}", served.kind);
        let here = match served.namespaced {
            true => format!("{base}/namespaces/{{namespace}}/{}", served.plural),
            false => format!("{base}/{}", served.plural),
        };
        let content = json!({"application/json": {"schema":
            {"$ref": format!("#/components/schemas/{name}")}}});
        let get = json!({
            "x-kubernetes-action": "get",
            "x-kubernetes-group-version-kind":
                {"group": GROUP, "version": VERSION, "kind": served.kind},
            "responses": {"200": {"description": "OK", "content": content}},
        });
        paths.insert(format!("{here}/{{name}}"), json!({"get": get}));
        kinds.insert(name, schema);
    }
    json!({"openapi": "3.0.0", "info": info(), "paths": paths, "components": {"schemas": kinds}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_served_is_in_each_document() {
        let (old, new) = (resources(), whole());
        let new = &new["items"][0]["versions"][0]["resources"];
        assert_eq!(old["resources"].as_array().unwrap().len(), ALL.len());
        for (at, served) in ALL.iter().enumerate() {
            assert_eq!(old["resources"][at]["name"], served.plural);
            assert_eq!(new[at]["resource"], served.plural);
            let scope = if served.namespaced {
                "Namespaced"
            } else {
                "Cluster"
            };
            assert_eq!(new[at]["scope"], scope);
        }
        assert_eq!(groups()["groups"][0]["name"], GROUP);
        assert_eq!(group(true)["kind"], "APIGroup");
    }
}
