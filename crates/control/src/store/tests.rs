use super::*;
use crate::pod::Pod;

fn pod(name: &str, version: &str) -> Pod {
    let mut pod = Pod::default();
    pod.metadata.name = Some(name.to_owned());
    pod.metadata.uid = Some(format!("uid-{name}"));
    pod.metadata.resource_version = Some(version.to_owned());
    pod
}

fn versions(store: &Store<Pod>) -> String {
    let all = store.all();
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
fn a_write_of_ours_is_seen_before_the_watch_tells_of_it() {
    let store = Store::<Pod>::default();
    store.put(pod("a", "5"));
    store.take(Event::Apply(Lenient::Object(pod("a", "4"))));
    assert_eq!(versions(&store), "a5", "what is older does not count");
    store.take(Event::Apply(Lenient::Object(pod("a", "6"))));
    assert_eq!(versions(&store), "a6");
}

#[test]
fn an_answer_that_comes_late_does_not_bring_back_what_is_gone() {
    let store = Store::<Pod>::default();
    store.take(Event::Apply(Lenient::Object(pod("a", "5"))));
    store.take(Event::Delete(Lenient::Object(pod("a", "6"))));
    store.put(pod("a", "5"));
    assert_eq!(versions(&store), "");
}

#[test]
fn a_new_list_drops_what_it_does_not_name_but_for_newer_writes_of_ours() {
    let store = Store::<Pod>::default();
    store.take(Event::Apply(Lenient::Object(pod("a", "1"))));
    store.take(Event::Init);
    store.take(Event::InitApply(Lenient::Object(pod("b", "7"))));
    store.put(pod("c", "9"));
    store.take(Event::InitDone);
    assert_eq!(versions(&store), "b7 c9");
}

#[test]
fn objects_are_found_by_their_owner_and_changes_are_told() {
    let store = Store::<Pod>::default();
    let told = Arc::new(std::sync::Mutex::new(Vec::new()));
    let notes = Arc::clone(&told);
    store.on_change(move |old, new| notes.lock().unwrap().push((old.is_some(), new.is_some())));
    let mut owned = pod("a", "1");
    owned.metadata.owner_references = Some(vec![Default::default()]);
    let owner = &mut owned.metadata.owner_references.as_mut().unwrap()[0];
    (owner.uid, owner.controller) = ("owner".to_owned(), Some(true));
    store.take(Event::Apply(Lenient::Object(owned)));
    assert_eq!(store.owned("owner", |pod| pod.metadata.name.clone()), [Some("a".to_owned())]);
    store.forget(&Key::new("", "a"), Some("uid-of-another"));
    assert_eq!(store.owned("owner", |_| ()).len(), 1);
    store.forget(&Key::new("", "a"), Some("uid-a"));
    assert!(store.owned("owner", |_| ()).is_empty());
    assert_eq!(*told.lock().unwrap(), [(false, true), (true, false)]);
}

#[test]
fn an_object_that_cannot_be_read_stays_as_it_was_known_until_it_is_gone() {
    let store = Store::<Pod>::default();
    let unreadable = |version: &str| Lenient::Unreadable {
        metadata: pod("a", version).metadata,
        reason: "recursion limit exceeded".to_owned(),
    };
    store.take(Event::Init);
    store.take(Event::InitApply(unreadable("1")));
    store.take(Event::InitApply(Lenient::Object(pod("b", "2"))));
    store.take(Event::InitDone);
    assert_eq!(versions(&store), "b2", "the others are known");
    assert!(*store.synced.borrow(), "nobody waits for it");
    store.take(Event::Apply(Lenient::Object(pod("a", "3"))));
    store.take(Event::Apply(unreadable("4")));
    assert_eq!(versions(&store), "a3 b2");
    store.take(Event::Delete(unreadable("5")));
    assert_eq!(versions(&store), "b2");
}
