//! Reloading of certificates.

use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

fn material() -> TlsMaterial {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    TlsMaterial { certificate: certificate.into(), key: key.into(), ..TlsMaterial::default() }
}

#[tokio::test(start_paused = true)]
async fn certificates_are_reloaded_after_the_source_panics() {
    let (old, new) = (material(), material());
    let reads = Arc::new(AtomicU32::new(0));
    let source: CertificateSource = Arc::new(move || {
        let (old, new, read) = (old.clone(), new.clone(), reads.fetch_add(1, Ordering::Relaxed));
        Box::pin(async move {
            assert_ne!(read, 2, "on purpose");
            Ok(if read <= 2 { old } else { new })
        })
    });
    let supervisor = Supervisor::new();
    let mut certificates =
        CertificateWatcher::start(source, "watch of certificates", &supervisor).await.unwrap();
    let before = certificates.current();
    certificates.current.changed().await.expect("they are reloaded");
    assert!(
        !Arc::ptr_eq(&before.config, &certificates.current().config),
        "the certificates were replaced"
    );
    assert_eq!(supervisor.problems(), ["watch of certificates was started again a moment ago"]);
}
