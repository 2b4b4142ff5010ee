// Starts a server of a cluster whose objects are valid, damaged or written by another program. The server must use the
// objects, or refuse them with a message.
#include <memory>
#include <string>

#include "base/log.h"
#include "cluster/client_entry.h"
#include "cluster/cluster.h"
#include "cluster/members.h"
#include "cluster/reply_objects.h"
#include "input.h"
#include "objects/memory_store.h"

namespace {

using namespace penstock;           // NOLINT: a program of its own
using namespace penstock::cluster;  // NOLINT
using fuzz::Die;
using fuzz::Input;

std::string Rest(Input& input) { return std::string(AsText(input.Take(1 << 16))); }

void CheckMembers(Input& input) {
  const auto store = std::make_shared<objects::MemoryStore>();
  const std::string text = Rest(input);
  const auto members = ParseMembers(text);
  if (members && ParseMembers(ToText(*members)) != members) Die("the members changed in a round trip");
  store->Replace("members", 0, text);
  TimePoint now{};
  const auto pass = [&](Duration time) {
    now += time;
    return true;
  };
  Cluster cluster(
      store,
      {.name = "c", .node = "a", .server = "one", .wait = pass, .now = [&] { return now; }, .has_threads = false});
  const auto begun = cluster.Begin(std::chrono::seconds(90), {});
  if (!begun && begun.error().message.empty()) Die("refused without a word");
  if (!begun) return;
  if (begun->instance == 0) Die("an impossible run");
  for (int i = 0; i < 200; ++i) {
    pass(std::chrono::seconds(2));
    cluster.Look();
  }
  if (!cluster.Record({"owner", {}}) || !cluster.EndGrace()) Die("a store that works is not used");
  cluster.Leave();
}

void CheckClient(Input& input) {
  const std::string value = Rest(input);
  const auto client = ParseClient(value);
  if (client && ValueOf(*client) != value) Die("the client changed in a round trip");
}

void CheckReplies(Input& input) {
  const auto store = std::make_shared<objects::MemoryStore>();
  std::string object = input.Octet() != 0 ? std::string("pnsrep1\0\0\0\0\x02\0\0\0\x40", 16) : std::string();
  object += Rest(input);
  store->Replace("replies-1-000102030405060708090a0b0c0d0e0f", 0, object);
  auto opened = OpenReplyObjects(store, 2, {1});
  if (!opened) Die("refused");
  (*opened)->Load();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  log::SetSink([](const log::Record&) {}, log::Level::kError);
  Input input(data, size);
  switch (input.Octet() % 3) {
    case 0:
      CheckMembers(input);
      break;
    case 1:
      CheckClient(input);
      break;
    default:
      CheckReplies(input);
  }
  return 0;
}
