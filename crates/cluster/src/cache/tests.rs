use k8s_openapi::api::core::v1::Pod;

use serde_json::json;

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

/// Returns a pod as a watch delivers it.
fn watched(pod: &Pod) -> Undecoded<Pod> {
    serde_json::from_str(&serde_json::to_string(pod).unwrap()).unwrap()
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
    cache.handle(Event::Apply(watched(&pod("a", "4"))));
    assert_eq!(versions(&cache), "a5", "what is older does not count");
    cache.handle(Event::Apply(watched(&pod("a", "6"))));
    assert_eq!(versions(&cache), "a6");
}

#[test]
fn a_late_answer_does_not_bring_back_a_deleted_object() {
    let cache = Cache::<Pod>::default();
    cache.handle(Event::Apply(watched(&pod("a", "5"))));
    cache.handle(Event::Delete(watched(&pod("a", "6"))));
    cache.insert(pod("a", "5"));
    assert_eq!(versions(&cache), "");
}

#[test]
fn a_new_list_removes_what_it_does_not_name_but_for_newer_own_writes() {
    let cache = Cache::<Pod>::default();
    cache.handle(Event::Apply(watched(&pod("a", "1"))));
    cache.handle(Event::Init);
    cache.handle(Event::InitApply(watched(&pod("b", "7"))));
    cache.insert(pod("c", "9"));
    cache.handle(Event::InitDone);
    assert_eq!(versions(&cache), "b7 c9");
}

#[test]
fn objects_are_found_by_their_owner_and_subscribers_are_notified() {
    let cache = Cache::<Pod>::default();
    let changes = Arc::new(std::sync::Mutex::new(Vec::new()));
    let notes = Arc::clone(&changes);
    let subscription =
        cache.subscribe(move |old, new| notes.lock().unwrap().push((old.is_some(), new.is_some())));
    let mut owned = pod("a", "1");
    owned.metadata.owner_references = Some(vec![Default::default()]);
    let owner = &mut owned.metadata.owner_references.as_mut().unwrap()[0];
    (owner.uid, owner.controller) = ("owner".to_owned(), Some(true));
    cache.handle(Event::Apply(watched(&owned)));
    assert_eq!(cache.owned("owner", |pod| pod.metadata.name.clone()), [Some("a".to_owned())]);
    cache.remove(&Key::new("", "a"), Some("uid-of-another"));
    assert_eq!(cache.owned("owner", |_| ()).len(), 1);
    cache.remove(&Key::new("", "a"), Some("uid-a"));
    assert!(cache.owned("owner", |_| ()).is_empty());
    assert_eq!(*changes.lock().unwrap(), [(false, true), (true, false)]);
    drop(subscription);
    cache.insert(pod("b", "9"));
    assert_eq!(changes.lock().unwrap().len(), 2, "a subscription ends with its guard");
}

#[test]
fn an_unreadable_object_keeps_its_last_known_state_until_it_is_deleted() {
    let cache = Cache::<Pod>::default();
    let unreadable = |version: &str| {
        let object = json!({"metadata": pod("a", version).metadata, "spec": "none"});
        serde_json::from_str(&object.to_string()).unwrap()
    };
    cache.handle(Event::Init);
    cache.handle(Event::InitApply(unreadable("1")));
    cache.handle(Event::InitApply(watched(&pod("b", "2"))));
    cache.handle(Event::InitDone);
    assert_eq!(versions(&cache), "b2", "the others are known");
    assert!(cache.progress.borrow().lists > 0, "nothing waits for it");
    assert_eq!(cache.unreadable(), 1);
    cache.handle(Event::Apply(watched(&pod("a", "3"))));
    cache.handle(Event::Apply(unreadable("4")));
    assert_eq!((versions(&cache).as_str(), cache.unreadable()), ("a3 b2", 1));
    cache.handle(Event::Delete(unreadable("5")));
    assert_eq!(cache.unreadable(), 0);
    assert_eq!(versions(&cache), "b2");
}

#[test]
fn an_object_deleted_while_no_watch_was_open_leaves_the_cache() {
    let cache = Cache::<Pod>::default();
    cache.handle(Event::Init);
    cache.handle(Event::InitDone);
    // This process created it; the watch broke before it was delivered, and in the meantime it was deleted.
    cache.insert(pod("a", "9"));
    cache.handle(Event::Init);
    cache.handle(Event::InitApply(watched(&pod("b", "3"))));
    cache.handle(Event::InitDone);
    assert_eq!(versions(&cache), "b3");
}

#[test]
fn a_subscriber_receives_what_is_present_and_then_every_change() {
    let cache = Cache::<Pod>::default();
    cache.handle(Event::Apply(watched(&pod("a", "1"))));
    let changes = Arc::new(std::sync::Mutex::new(Vec::new()));
    let notes = Arc::clone(&changes);
    let version = |pod: Option<&Arc<Pod>>| pod.map(|pod| resource_version(&pod.metadata));
    let _subscription = cache.subscribe(move |old, new| {
        notes.lock().unwrap().push((version(old), version(new)));
    });
    cache.handle(Event::Apply(watched(&pod("a", "2"))));
    cache.handle(Event::Apply(watched(&pod("a", "2"))));
    cache.handle(Event::Delete(watched(&pod("a", "3"))));
    let expected = [(None, Some(1)), (Some(1), Some(2)), (Some(2), None)];
    assert_eq!(*changes.lock().unwrap(), expected);
}

#[test]
fn what_is_not_newer_is_not_decoded() {
    let cache = Cache::<Pod>::default();
    cache.insert(pod("a", "5"));
    let object = json!({"metadata": pod("a", "5").metadata, "spec": "cannot be decoded"});
    cache.handle(Event::Apply(serde_json::from_str(&object.to_string()).unwrap()));
    assert_eq!((versions(&cache).as_str(), cache.unreadable()), ("a5", 0));
}

#[test]
fn an_own_write_to_an_object_that_is_held_counts_though_a_list_is_ahead_of_it() {
    let cache = Cache::<Pod>::default();
    cache.handle(Event::Apply(watched(&pod("a", "1"))));
    cache.handle(Event::Init);
    cache.handle(Event::InitApply(watched(&pod("b", "7"))));
    cache.insert(pod("a", "5"));
    assert_eq!(versions(&cache), "a5 b7");
}

#[test]
fn texts_are_kept_where_they_are_wanted() {
    struct Text(ObjectMeta, Option<Box<str>>);
    impl CacheEntry for Text {
        type Object = Pod;

        fn from_object(object: Pod) -> Self {
            Self(object.metadata, None)
        }

        fn with_text(self, text: Box<str>) -> Self {
            Self(self.0, Some(text))
        }

        fn meta(&self) -> &ObjectMeta {
            &self.0
        }
    }
    for keeps_text in [true, false] {
        let cache = Cache::<Text>::new(keeps_text);
        cache.handle(Event::Apply(watched(&pod("a", "1"))));
        let text = serde_json::to_string(&pod("a", "1")).unwrap();
        let expected = keeps_text.then_some(text.as_str());
        let held = cache.get(&Key::new("", "a")).unwrap();
        let answered = cache.decode(text.clone()).unwrap();
        assert_eq!([held.1.as_deref(), answered.1.as_deref()], [expected; 2]);
    }
}
