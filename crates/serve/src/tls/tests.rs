//! Are certificates followed, whatever happens?

use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

fn material() -> Material {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    Material { certificate: certificate.into(), key: key.into(), ..Material::default() }
}

#[tokio::test(start_paused = true)]
async fn certificates_are_followed_after_a_panic() {
    let (old, new) = (material(), material());
    let looks = Arc::new(AtomicU32::new(0));
    let source: Source = Arc::new(move || {
        let (old, new, look) = (old.clone(), new.clone(), looks.fetch_add(1, Ordering::Relaxed));
        Box::pin(async move {
            assert_ne!(look, 2, "on purpose");
            Ok(if look <= 2 { old } else { new })
        })
    });
    let supervisor = Supervisor::new();
    let mut certificates =
        Certificates::follow(source, "watch of certificates", &supervisor).await.unwrap();
    let before = certificates.now();
    certificates.now.changed().await.expect("someone follows them");
    assert!(!Arc::ptr_eq(&before.config, &certificates.now().config), "they are new");
    assert_eq!(supervisor.problems(), ["watch of certificates was started again a moment ago"]);
}
