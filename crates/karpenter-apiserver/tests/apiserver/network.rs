//! The server on TCP with TLS, as a client with the kubeconfig sees it.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::Namespace;
use karpenter_apiserver::serve::{ClientIdentity, Identity, kubeconfig, serve};
use karpenter_apiserver::{ApiServer, Authorization, Options, SystemEnvironment, User};
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};

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
