use k8s_openapi::api::core::v1::Pod;

use super::*;

impl CacheEntry for Pod {
    type Object = Self;

    fn from_object(object: Self) -> Self {
        object
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}

fn pod(name: &str, version: &str) -> Pod {
    let mut pod = Pod::default();
    pod.metadata.name = Some(name.to_owned());
    pod.metadata.uid = Some(format!("uid-{name}"));
    pod.metadata.resource_version = Some(version.to_owned());
    pod
}

fn versions(cache: &Cache<Pod>) -> String {
    let all = cache.all();
    let meta = all.iter().map(|pod| &pod.metadata);
    let mut all: Vec<String> = meta
        .map(|m| {
            format!("{}{}", m.name.as_deref().unwrap(), m.resource_version.as_deref().unwrap())
        })
        .collect();
    all.sort();
    all.join(" ")
}

#[test]
fn an_own_write_is_visible_before_the_watch_delivers_it() {
    let cache = Cache::<Pod>::default();
    cache.insert(pod("a", "5"));
    cache.handle(Event::Apply(Lenient::Object(pod("a", "4"))));
    assert_eq!(versions(&cache), "a5", "what is older does not count");
    cache.handle(Event::Apply(Lenient::Object(pod("a", "6"))));
    assert_eq!(versions(&cache), "a6");
}

#[test]
fn a_late_answer_does_not_bring_back_a_deleted_object() {
    let cache = Cache::<Pod>::default();
    cache.handle(Event::Apply(Lenient::Object(pod("a", "5"))));
    cache.handle(Event::Delete(Lenient::Object(pod("a", "6"))));
    cache.insert(pod("a", "5"));
    assert_eq!(versions(&cache), "");
}

#[test]
fn a_new_list_removes_what_it_does_not_name_but_for_newer_own_writes() {
    let cache = Cache::<Pod>::default();
    cache.handle(Event::Apply(Lenient::Object(pod("a", "1"))));
    cache.handle(Event::Init);
    cache.handle(Event::InitApply(Lenient::Object(pod("b", "7"))));
    cache.insert(pod("c", "9"));
    cache.handle(Event::InitDone);
    assert_eq!(versions(&cache), "b7 c9");
}

#[test]
fn objects_are_found_by_their_owner_and_subscribers_are_notified() {
    let cache = Cache::<Pod>::default();
    let changes = Arc::new(std::sync::Mutex::new(Vec::new()));
    let notes = Arc::clone(&changes);
    cache.subscribe(move |old, new| notes.lock().unwrap().push((old.is_some(), new.is_some())));
    let mut owned = pod("a", "1");
    owned.metadata.owner_references = Some(vec![Default::default()]);
    let owner = &mut owned.metadata.owner_references.as_mut().unwrap()[0];
    (owner.uid, owner.controller) = ("owner".to_owned(), Some(true));
    cache.handle(Event::Apply(Lenient::Object(owned)));
    assert_eq!(cache.owned("owner", |pod| pod.metadata.name.clone()), [Some("a".to_owned())]);
    cache.remove(&Key::new("", "a"), Some("uid-of-another"));
    assert_eq!(cache.owned("owner", |_| ()).len(), 1);
    cache.remove(&Key::new("", "a"), Some("uid-a"));
    assert!(cache.owned("owner", |_| ()).is_empty());
    assert_eq!(*changes.lock().unwrap(), [(false, true), (true, false)]);
}

#[test]
fn an_unreadable_object_keeps_its_last_known_state_until_it_is_deleted() {
    let cache = Cache::<Pod>::default();
    let unreadable = |version: &str| Lenient::Unreadable {
        metadata: pod("a", version).metadata,
        reason: "recursion limit exceeded".to_owned(),
    };
    cache.handle(Event::Init);
    cache.handle(Event::InitApply(unreadable("1")));
    cache.handle(Event::InitApply(Lenient::Object(pod("b", "2"))));
    cache.handle(Event::InitDone);
    assert_eq!(versions(&cache), "b2", "the others are known");
    assert!(*cache.synced.borrow(), "nobody waits for it");
    cache.handle(Event::Apply(Lenient::Object(pod("a", "3"))));
    cache.handle(Event::Apply(unreadable("4")));
    assert_eq!(versions(&cache), "a3 b2");
    cache.handle(Event::Delete(unreadable("5")));
    assert_eq!(versions(&cache), "b2");
}

#[test]
fn an_object_deleted_while_no_watch_was_open_leaves_the_cache() {
    let cache = Cache::<Pod>::default();
    cache.handle(Event::Init);
    cache.handle(Event::InitDone);
    // This process created it; the watch broke before it was delivered, and meanwhile it was deleted.
    cache.insert(pod("a", "9"));
    cache.handle(Event::Init);
    cache.handle(Event::InitApply(Lenient::Object(pod("b", "3"))));
    cache.handle(Event::InitDone);
    assert_eq!(versions(&cache), "b3");
}
