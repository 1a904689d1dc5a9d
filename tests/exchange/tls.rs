//! TLS inside the connector: own roots, names checked, no process-wide provider.

use std::io::Write;
use std::sync::Arc;

use crawler_node::exchange::{Client, ClientError, Fault};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use tokio_rustls::TlsAcceptor;
use url::Url;

use crate::support::{Server, Then, client, exchange, get, ok, reply, settings};

pub(crate) struct Authority {
    pub(crate) file: tempfile::NamedTempFile,
    pub(crate) acceptor: TlsAcceptor,
}

pub(crate) fn authority() -> Authority {
    let signed = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(signed.cert.pem().as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(signed.signing_key.serialize_pem().as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![signed.cert.der().clone()], key)
        .unwrap();
    Authority {
        file,
        acceptor: TlsAcceptor::from(Arc::new(config)),
    }
}

pub(crate) fn url(server: &Server, host: &str) -> Url {
    Url::parse(&format!("https://{host}:{}/x", server.port)).unwrap()
}

#[actix_rt::test]
async fn a_ca_file_is_trusted_and_connections_are_kept() {
    let authority = authority();
    let replies = vec![
        reply(
            "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none",
            Then::Keep,
        ),
        reply(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\ntwo\r\n0\r\n\r\n",
            Then::Keep,
        ),
        reply("HTTP/1.1 200 OK\r\n\r\nthree", Then::Close),
    ];
    let server = Server::start_with(replies, Some(authority.acceptor.clone())).await;
    let mut settings = settings();
    settings.ca_file = Some(authority.file.path().to_owned());
    let client = client(&settings);
    for body in ["one", "two", "three"] {
        let answer = get(&client, url(&server, "localhost")).await.unwrap();
        assert_eq!(answer.body, body);
    }
    assert_eq!(server.connections(), 1);
    assert!(server.requests()[0].contains(&format!("Host: localhost:{}\r\n", server.port)));
    assert!(rustls::crypto::CryptoProvider::get_default().is_none());
}

#[actix_rt::test]
async fn unknown_authorities_and_wrong_names_are_refused() {
    let authority = authority();
    let server = Server::start_with(vec![ok("x")], Some(authority.acceptor.clone())).await;
    let fault = get(&client(&settings()), url(&server, "localhost"))
        .await
        .unwrap_err();
    assert!(matches!(fault, Fault::Tls(_)), "{fault}");
    let mut settings = settings();
    settings.ca_file = Some(authority.file.path().to_owned());
    let exchanged = exchange(&client(&settings), url(&server, "127.0.0.1")).await;
    assert!(matches!(exchanged.result.unwrap_err().fault, Fault::Tls(_)));
    assert!(exchanged.receipt);
    assert!(server.requests().is_empty());
}

#[actix_rt::test]
async fn plain_and_tls_on_one_port_do_not_share_connections() {
    let authority = authority();
    let server = Server::start_with(vec![ok("x")], Some(authority.acceptor.clone())).await;
    let mut settings = settings();
    settings.ca_file = Some(authority.file.path().to_owned());
    let client = client(&settings);
    let mut plain = url(&server, "localhost");
    get(&client, plain.clone()).await.unwrap();
    plain.set_scheme("http").unwrap();
    assert!(get(&client, plain).await.is_err());
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn a_client_that_cannot_be_made_says_why() {
    let mut settings = settings();
    settings.ca_file = Some("/nonexistent/ca.pem".into());
    let error = Client::new(&settings, "a").unwrap_err();
    assert!(error.to_string().contains("/nonexistent/ca.pem"), "{error}");
    let empty = tempfile::NamedTempFile::new().unwrap();
    settings.ca_file = Some(empty.path().to_owned());
    assert!(matches!(
        Client::new(&settings, "a"),
        Err(ClientError::CaFile { .. })
    ));
    settings.ca_file = None;
    for agent in ["", "a\r\nb", " "] {
        assert!(matches!(
            Client::new(&settings, agent),
            Err(ClientError::UserAgent(_))
        ));
    }
}
