//! Real certificates, in files.

use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

/// Writes an authority's certificate as `ca.crt`, and for each name a certificate and a key of this machine.
pub(super) fn write(folder: &Path, names: &[&str]) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let file = |name: String, text: String| {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    file("ca.crt".to_owned(), authority.pem());
    for name in names {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &authority).unwrap();
        file(format!("{name}.crt"), certificate.pem());
        file(format!("{name}.key"), key.serialize_pem());
    }
}
