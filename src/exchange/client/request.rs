//! A request as awc is given it.

use std::sync::Arc;

use awc::http::header::{self, HeaderName, HeaderValue};
use awc::http::{Method as HttpMethod, Uri};
use url::{Position, Url};

use super::super::error::Fault;
use crate::model::{Method, Request};

/// Headers of a request that the exchange alone decides.
const OWN_HEADERS: [HeaderName; 8] = [
    header::HOST,
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::ACCEPT_ENCODING,
    header::UPGRADE,
    header::EXPECT,
    // For a proxy's eyes; never put into a request.
    header::PROXY_AUTHORIZATION,
];

/// The codings that are undone; in the order in which browsers name them.
const CODINGS: HeaderValue = HeaderValue::from_static("gzip, deflate, br, zstd");

/// The request, ready to be sent by `client`.
pub(super) fn build(
    client: &awc::Client,
    agent: &HeaderValue,
    request: &Request,
) -> Result<awc::ClientRequest, Fault> {
    let uri = uri_of(&request.url)?;
    let method = match request.method {
        Method::Get => HttpMethod::GET,
        Method::Post => HttpMethod::POST,
    };
    let host = HeaderValue::from_str(host_text(&request.url))
        .map_err(|_| Fault::InvalidUrl("its host cannot be sent".to_owned()))?;
    let mut builder = client.request(method, uri).no_decompress().camel_case();
    let headers = builder.headers_mut();
    headers.insert(header::HOST, host);
    headers.insert(header::USER_AGENT, agent.clone());
    headers.insert(header::ACCEPT, HeaderValue::from_static("*/*"));
    headers.insert(header::ACCEPT_ENCODING, CODINGS);
    for (index, (name, value)) in request.headers.iter().enumerate() {
        let invalid = |why| Fault::InvalidHeader {
            name: name.chars().take(80).collect(),
            why,
        };
        let known = HeaderName::try_from(name.as_str())
            .map_err(|_| invalid("its name is not a header name"))?;
        if OWN_HEADERS.contains(&known) {
            return Err(invalid("the exchange sets it itself"));
        }
        let value = HeaderValue::from_bytes(value.as_bytes())
            .map_err(|_| invalid("its value has a line break or another control character"))?;
        // The first of a name replaces a default, the others are added to it.
        let seen = &request.headers[..index];
        if seen
            .iter()
            .any(|(other, _)| other.eq_ignore_ascii_case(name))
        {
            headers.append(known, value);
        } else {
            headers.insert(known, value);
        }
    }
    Ok(builder)
}

/// Host, and port where it is not the scheme's own: as it is sent and as errors name it.
pub(super) fn host_of(url: &Url) -> Arc<str> {
    host_text(url).into()
}

fn host_text(url: &Url) -> &str {
    &url[Position::BeforeHost..Position::AfterPort]
}

/// The URI that awc is given: always `http`, TLS being the connector's; with the port of the scheme.
fn uri_of(url: &Url) -> Result<Uri, Fault> {
    let invalid = |text: &str| Fault::InvalidUrl(text.to_owned());
    if !url.username().is_empty() || url.password().is_some() {
        return Err(invalid("it holds a user name or password"));
    }
    let uri = match url.scheme() {
        "http" => Uri::try_from(&url[..Position::AfterQuery]),
        "https" => {
            let host = url.host_str().unwrap_or_default();
            let port = url.port().unwrap_or(443);
            let path = &url[Position::BeforePath..Position::AfterQuery];
            Uri::try_from(format!("http://{host}:{port}{path}"))
        }
        _ => return Err(invalid("its scheme is not http or https")),
    };
    uri.map_err(|error| invalid(&error.to_string()))
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
