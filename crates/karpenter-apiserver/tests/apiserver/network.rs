//! The server on TCP with TLS, as a client with the kubeconfig sees it.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Namespace;
use karpenter_apiserver::serve::{ClientIdentity, Identity, kubeconfig, serve, serve_until};
use karpenter_apiserver::{ApiServer, Authorization, DataDir, Options, SystemEnvironment, User};
use kube::api::{ListParams, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

async fn client(kubeconfig: &str) -> Client {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

#[tokio::test]
async fn a_kubeconfig_connects_over_tls_and_a_wrong_token_does_not() {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let identity = Identity::generate(&["127.0.0.1".to_owned()]).unwrap();
    let mut options = Options { environment: Arc::new(SystemEnvironment), ..Options::default() };
    options.tokens.insert("secret".into(), User::admin());
    let server = ApiServer::new(options);
    let right = kubeconfig(address, &identity, Some("secret"));
    let wrong = kubeconfig(address, &identity, Some("guess"));
    let exchange = async {
        let namespaces: Api<Namespace> = Api::all(client(&right).await);
        let names = namespaces.list(&ListParams::default()).await.unwrap();
        assert!(names.iter().any(|namespace| namespace.metadata.name.as_deref() == Some("default")));
        let namespaces: Api<Namespace> = Api::all(client(&wrong).await);
        let (code, ..) = crate::world::refused(namespaces.list(&ListParams::default()).await);
        assert_eq!(code, 401);
    };
    tokio::select! {
        outcome = serve(server, listener, &identity) => panic!("the server stopped: {outcome:?}"),
        () = exchange => {}
    }
}

/// A kubeconfig with a client certificate instead of a token.
fn with_certificate(kubeconfig: &str, client: &ClientIdentity) -> Kubeconfig {
    let mut kubeconfig = Kubeconfig::from_yaml(kubeconfig).unwrap();
    let user = kubeconfig.auth_infos[0].auth_info.as_mut().unwrap();
    user.client_certificate_data = Some(STANDARD.encode(&client.certificate_pem));
    user.client_key_data = Some(STANDARD.encode(&client.key_pem).into());
    kubeconfig
}

#[tokio::test]
async fn a_client_certificate_is_its_subject_and_one_of_another_authority_is_refused() {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let identity = Identity::generate(&["127.0.0.1".to_owned()]).unwrap();
    let server = ApiServer::new(Options { authorization: Authorization::Rbac, ..Options::default() });
    let plain = kubeconfig(address, &identity, None);
    let exchange = async {
        let namespaces = async |client: &ClientIdentity| {
            let kubeconfig = with_certificate(&plain, client);
            let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
            let namespaces: Api<Namespace> = Api::all(Client::try_from(config.unwrap()).unwrap());
            namespaces.list(&ListParams::default()).await
        };
        let admin = identity.client("boss", Some("system:masters")).unwrap();
        assert!(namespaces(&admin).await.is_ok());
        let jane = identity.client("jane", None).unwrap();
        let (code, _, message) = crate::world::refused(namespaces(&jane).await);
        assert_eq!(code, 403);
        assert!(message.contains("User \"jane\" cannot list"), "{message}");
        let other = Identity::generate(&["127.0.0.1".to_owned()]).unwrap();
        let stranger = other.client("boss", Some("system:masters")).unwrap();
        assert_eq!(crate::world::refused(namespaces(&stranger).await).0, 401);
    };
    tokio::select! {
        outcome = serve(server, listener, &identity) => panic!("the server stopped: {outcome:?}"),
        () = exchange => {}
    }
}

#[tokio::test]
async fn an_authority_that_is_kept_is_trusted_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let names = ["127.0.0.1".to_owned()];
    let data_dir = DataDir::open(folder.path()).unwrap();
    let before = Identity::kept(&data_dir, &names).unwrap();
    let after = Identity::kept(&data_dir, &names).unwrap();
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let trusting = kubeconfig(listener.local_addr().unwrap(), &before, None);
    let exchange = async {
        let namespaces: Api<Namespace> = Api::all(client(&trusting).await);
        assert!(namespaces.list(&ListParams::default()).await.is_ok());
    };
    tokio::select! {
        outcome = serve(ApiServer::new(Options::default()), listener, &after) => panic!("it stopped: {outcome:?}"),
        () = exchange => {}
    }
    std::fs::write(folder.path().join("authority.key"), "scribble").unwrap();
    let error = Identity::kept(&data_dir, &names).unwrap_err().to_string();
    assert!(error.contains("authority.key is no private key"), "{error}");
}

#[tokio::test]
async fn stopping_ends_watches_and_then_the_server() {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let identity = Identity::generate(&["127.0.0.1".to_owned()]).unwrap();
    let text = kubeconfig(listener.local_addr().unwrap(), &identity, None);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let watch = async {
        let namespaces: Api<Namespace> = Api::all(client(&text).await);
        let mut events =
            namespaces.watch(&WatchParams::default().disable_bookmarks(), "0").await.unwrap().boxed();
        events.try_next().await.unwrap().unwrap();
        stop.send(()).unwrap();
        while events.try_next().await.unwrap().is_some() {}
    };
    let serve = serve_until(ApiServer::new(Options::default()), listener, &identity, async {
        let _ = stopped.await;
    });
    let (outcome, ()) = tokio::join!(serve, watch);
    outcome.unwrap();
}

#[tokio::test]
async fn whoever_speaks_no_tls_is_told_so() {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let identity = Identity::generate(&["127.0.0.1".to_owned()]).unwrap();
    let exchange = async {
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET /version HTTP/1.1\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.0 400 Bad Request"), "{answer}");
        assert!(answer.ends_with("Client sent an HTTP request to an HTTPS server.\n"), "{answer}");
    };
    tokio::select! {
        outcome = serve(ApiServer::new(Options::default()), listener, &identity) => panic!("it stopped: {outcome:?}"),
        () = exchange => {}
    }
}
