// The fixture for tests of file systems that move to another server while they are in use (RFC 8881 §11.5.5, RFC 7530
// §8.4.2).
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "client/known_names.h"
#include "client/mount_test_support.h"
#include "protocol/nfs4.h"

namespace penstock::client::v4 {

using namespace std::chrono_literals;
using nfs4::nfs_opnum4;
using nfs4::nfsstat4;

// The names of the objects that a test has added, as if a user had looked them up.
class TestNames final : public KnownNames {
 public:
  void Add(const Node& node, const Handle& directory, std::string_view name) {
    places_[node.handle] = {directory, std::string(name), node.attributes.type};
    objects_[{directory, std::string(name)}] = node.handle;
  }
  void Forget(const Handle& object, const Handle& directory, std::string_view name) {
    places_.erase(object);
    objects_.erase({directory, std::string(name)});
  }
  std::optional<Place> PlaceOf(const Handle& object) const override {
    const auto at = places_.find(object);
    return at == places_.end() ? std::nullopt : std::optional(at->second);
  }
  bool Knows(const Handle& object) const override { return places_.contains(object); }
  std::optional<Handle> ObjectAt(const Handle& directory, std::string_view name) const override {
    const auto at = objects_.find({directory, std::string(name)});
    return at == objects_.end() ? std::nullopt : std::optional(at->second);
  }

 private:
  std::map<Handle, Place> places_;
  std::map<std::pair<Handle, std::string>, Handle> objects_;
};

// `service` is the mounted server, which serves /data with /data/directory/file. The test moves /data to `far`, which
// has another file at the same path.
class MigrationTest : public MountTestBase, public testing::WithParamInterface<Version> {
 protected:
  MigrationTest() : MountTestBase({.exports = {"/data", "/more"}, .lease = 2s, .delegations = 10}) {
    Fill(service, "here");
    Fill(far, "is there");
  }
  ~MigrationTest() override {
    if (mount) Unmount();
  }

  std::unique_ptr<Mount> MountOf(const TestService& of, const std::string& path = "/", uint32_t timeout = 20) {
    Url url = UrlOf(GetParam(), path);
    url.port = of.port();
    url.recovery.timeout = timeout;
    return Do(Mount::Open(loop, workers, url, options));
  }
  std::unique_ptr<Mount> MountOfOtherUser() {
    Url url = UrlOf(GetParam());
    url.uid = 1000;
    return Do(Mount::Open(loop, workers, url, options));
  }
  // Opens a mount of a user who may make files in the directory, at both servers. `far` has the file "new" of this
  // user.
  void OpenAsOtherUser(uint32_t mode) {
    const NewAttributes for_all{.mode = 0777};
    const NewAttributes of_user{.mode = mode, .owner = "1000"};
    for (const TestService* const each : {&service, &far}) {
      const auto mounted = MountOf(*each);
      const Node inner = Do(mounted->Resolve("data/directory"));
      Do(mounted->SetAttributes(inner.handle, "directory", for_all));
      if (each == &far) {
        const auto copied = Do(mounted->CreateFile(inner.handle, "new", 0600));
        Do(copied->Close());
        Do(mounted->SetAttributes(copied->node().handle, "new", of_user));
      }
      Run(mounted->Unmount());
    }
    mount = MountOfOtherUser();
    mount->set_names(&names);
    data = Look(root(), "data");
    directory = Look(data.handle, "directory");
  }
  void Fill(const TestService& of, std::string_view text) {
    const auto mounted = MountOf(of);
    const Node top = Do(mounted->Lookup(mounted->root(), "data"));
    const Node inner = Do(mounted->MakeDirectory(top.handle, "directory", 0755));
    const auto created = Do(mounted->CreateFile(inner.handle, "file", 0644));
    EXPECT_TRUE(Write(*created, text));
    Do(created->Commit());
    Do(created->Close());
    Run(mounted->Unmount());
  }
  // What the server has in /data/directory/file now.
  std::string TextAt(const TestService& of) {
    const auto mounted = MountOf(of);
    const auto opened = Do(mounted->OpenFile(Do(mounted->Resolve("data/directory/file")), "file", Access::kRead));
    std::string text = MountTestBase::Read(*opened);
    Do(opened->Close());
    Run(mounted->Unmount());
    return text;
  }
  // At both servers, the file is /data/directory/second as well.
  void AddSecondName() {
    for (const TestService* const each : {&service, &far}) {
      const auto mounted = MountOf(*each);
      const Node inner = Do(mounted->Resolve("data/directory"));
      Do(mounted->Link(Do(mounted->Lookup(inner.handle, "file")).handle, inner.handle, "second"));
      Run(mounted->Unmount());
    }
  }
  void RemoveFile(const TestService& of) {
    const auto mounted = MountOf(of);
    Do(mounted->Remove(Do(mounted->Resolve("data/directory")).handle, "file"));
    Run(mounted->Unmount());
  }

  Node Look(const Handle& in, std::string_view name) {
    const Node node = Do(mount->Lookup(in, name));
    names.Add(node, in, name);
    return node;
  }
  void Open(const std::string& path = "/", uint32_t timeout = 20) {
    mount = MountOf(service, path, timeout);
    mount->set_names(&names);
    Node top = Do(mount->Resolve(mount->path()));
    names.Add(top, {}, {});
    if (path == "/") {
      data = Look(root(), "data");
    } else {
      data = top;
    }
    directory = Look(data.handle, "directory");
    file = Look(directory.handle, "file");
  }
  uint64_t SizeOf(const Node& node) { return Do(mount->GetAttributes(node.handle, "file")).size; }
  // Asks for the attributes of the file. `got` gets the result, and outlives the call.
  void StartGetAttributes(Mount& of, std::optional<Result<Attributes>>& got) {
    Spawn([](Mount& asked, const Handle& object, std::optional<Result<Attributes>>& out) -> Task<void> {
      out = co_await asked.GetAttributes(object, "file");
    }(of, file.handle, got));
  }
  static size_t Occurrences(std::string_view text, std::string_view part) {
    size_t count = 0;
    for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
    return count;
  }

  // The calls by which the client finds out whether a file system has moved.
  static CallMatcher Looks() {
    return [](const SeenCall& call) {
      return !call.operations.empty() && call.operations.back() == nfs_opnum4::OP_GETFH &&
             CompoundsWith(nfs_opnum4::OP_PUTFH)(call);
    };
  }

  TestService far{loop, {.exports = {"/data"}, .lease = 2s}};
  TestNames names;
  Node data;
  Node directory;
  Node file;
};

}  // namespace penstock::client::v4
