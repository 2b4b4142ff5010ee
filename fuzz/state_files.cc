// Starts a server with files in its state directory that are valid, damaged or written by another program. The server
// must accept each file, or refuse it with a message. An accepted file must be usable.
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

#include "base/mix.h"
#include "fs/posix/handle_key.h"
#include "input.h"
#include "nfs/v4/state/stable/recovery.h"
#include "nfs/v4/state/stable/reply_record.h"
#include "nfs/v4/state/stable/stream_store.h"

namespace {

using namespace penstock;           // NOLINT: a program of its own
using namespace penstock::nfs::v4;  // NOLINT
using fuzz::Die;
using fuzz::Input;

// In memory if possible, because every input writes files.
class Scratch {
 public:
  Scratch() {
    std::string name = std::filesystem::is_directory("/dev/shm") ? "/dev/shm/fuzz.XXXXXX" : "/tmp/fuzz.XXXXXX";
    if (!::mkdtemp(name.data())) Die("no directory");
    path_ = name;
  }
  ~Scratch() { std::filesystem::remove_all(path_); }
  std::filesystem::path operator/(const char* name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

void Write(const std::filesystem::path& file, ConstBytes octets) {
  std::ofstream(file, std::ios::binary)
      .write(reinterpret_cast<const char*>(octets.data()), static_cast<std::streamsize>(octets.size()));
}

std::vector<std::byte> Rest(Input& input) {
  const ConstBytes taken = input.Take(1 << 16);
  return {taken.begin(), taken.end()};
}

// Adds a correct checksum, which a fuzzer would not find.
void CheckReply(Input& input) {
  std::vector<std::byte> record = Rest(input);
  if (record.size() < ReplyRecord::kHeader) return;
  StoreBig(record.data() + 8, static_cast<uint32_t>(record.size()));
  StoreBig(record.data(), Mix(record.size(), ConstBytes(record).subspan(8)));
  BufferPool pool;
  const auto reply = ReplyRecord::Parse(record, pool);
  if (reply && ReplyRecord::Serialize(*reply) != record) Die("the record changed in a round trip");
}

void CheckSession(Input& input) {
  const Scratch scratch;
  const bool repaired = input.Octet() != 0;
  std::vector<std::byte> file = Rest(input);
  if (repaired && file.size() >= 40) {
    CopyBytes(Bytes(file), AsBytes(std::string_view("pnstrp1\0", 8)));
    // Few and small slots, because a valid file has their size.
    file[8] = file[9] = file[10] = file[12] = file[13] = std::byte{};
    for (size_t i = 16; i < 32; ++i) file[i] = std::byte{};
    StoreBig(file.data() + 32, Mix(0, ConstBytes(file).first(32)));
  }
  std::filesystem::create_directory(scratch / "replies");
  Write(scratch / "replies" / std::string(32, '0'), file);
  auto store = OpenReplyStore(scratch / "replies");
  if (!store && store.error().message.empty()) Die("refused without a word");
  if (store) (*store)->Load();
}

// A file of a session of 2004: the head, the two copies of the end of the channel numbers, and the requests of two
// streamids, each with a correct checksum or without one. See stream_store_files.cc.
class StreamFile {
 public:
  explicit StreamFile(Input& input) : octets_(2 * kPage + kStreams * (kSector + kRecord)) {
    Part(input, 0, 192, kPage);
    if (octets_[8] == std::byte{0}) {  // ours, and small enough to be valid
      StoreBig(octets_.data() + 8, uint64_t{0x706e'7374'7374'3100});
      StoreBig(octets_.data() + 16, kId);
      StoreBig(octets_.data() + 40, kStreams);
      StoreBig(octets_.data() + 44, uint32_t{kRecord - 32});
      Seal(0, kPage);
    }
    for (const size_t at : {kPage, kPage + kSector}) Part(input, at, 16, 16);
    for (size_t stream = 0; stream < kStreams; ++stream) {
      const size_t name = 2 * kPage + stream * (kSector + kRecord);
      Part(input, name, 24, 24);
      const size_t record = name + kSector;
      const size_t size = 32 + input.Octet() % 64 * 4;
      Part(input, record, size, size, size);
      if (input.Octet() % 2 == 0) {  // the results belong to the request that was begun last
        CopyBytes(Bytes(octets_).subspan(record + 12, 8), ConstBytes(octets_).subspan(name + 8, 8));
        CopyBytes(Bytes(octets_).subspan(record + 24, 8), ConstBytes(octets_).subspan(name + 16, 8));
        Seal(record, size);
      }
    }
  }

  static constexpr uint64_t kId = 0x0123'4567'89ab'cdef;
  static constexpr uint32_t kStreams = 2;
  ConstBytes octets() const { return octets_; }

 private:
  static constexpr size_t kPage = 4096, kSector = 512, kRecord = 512;

  // Fills a part from the input, with a correct checksum over `covered` octets if the input wants it.
  void Part(Input& input, size_t at, size_t size, size_t covered, size_t length = 0) {
    const bool sealed = input.Octet() % 4 != 0;
    const ConstBytes taken = input.Take(size);
    CopyBytes(Bytes(octets_).subspan(at, taken.size()), taken);
    if (length != 0) StoreBig(octets_.data() + at + 8, static_cast<uint32_t>(length));
    if (sealed) Seal(at, covered);
  }
  void Seal(size_t at, size_t size) {
    StoreBig(octets_.data() + at, Mix(size, ConstBytes(octets_).subspan(at + 8, size - 8)));
  }

  std::vector<std::byte> octets_;
};

// The server starts, uses the session that it finds, and starts again: it knows what it has kept.
void CheckStreams(Input& input) {
  const Scratch scratch;
  const std::filesystem::path directory = scratch / "streams";
  const bool is_cut = input.Octet() % 8 == 0;
  const StreamFile file(input);
  const size_t size = is_cut ? size_t{input.Octet()} << 8 | input.Octet() : file.octets().size();
  std::filesystem::create_directory(directory);
  Write(directory / "0123456789abcdef", file.octets().first(std::min(size, file.octets().size())));
  auto store = OpenStreamStore(directory);
  if (!store && store.error().message.empty()) Die("refused without a word");
  if (!store) return;
  std::vector<SavedBoundSession> saved = (*store)->Load();
  if (saved.empty()) return;
  SavedBoundSession& session = saved.front();
  if (session.session.id != StreamFile::kId || session.streams.size() != session.session.streams)
    Die("another session");
  if (session.session.streams != StreamFile::kStreams) return;
  const StreamRecord begun{.channel = sess01::ChannelId(7), .xid = rpc::Xid(8), .digest = 9};
  StreamRecord kept = begun;
  kept.results.emplace();
  const ChannelBlock channels{.end = sess01::ChannelId(session.channels.end.value() + 1), .had_back = true};
  if (!session.storage->Begin(sess01::StreamId(0), begun, false) ||
      !session.storage->Begin(sess01::StreamId(1), begun, false) ||
      !session.storage->Keep(sess01::StreamId(1), kept, false)) {
    Die("nothing can be kept");
  }
  const bool reserved = channels.end.value() != 0 && session.storage->Reserve(channels);
  auto again = OpenStreamStore(directory);
  if (!again) Die("the file cannot be opened again");
  const std::vector<SavedBoundSession> found = (*again)->Load();
  if (found.size() != 1) Die("the session is gone");
  const auto& streams = found.front().streams;
  if (!streams[0] || streams[0]->xid != begun.xid || streams[0]->results) Die("a request that was begun is not known");
  if (!streams[1] || streams[1]->xid != kept.xid || !streams[1]->results) Die("a reply is not known");
  if (reserved && (found.front().channels.end != channels.end || !found.front().channels.had_back)) {
    Die("the end of the channel numbers is lost");
  }
}

// Our database with changed octets.
void CheckClients(Input& input) {
  const Scratch scratch;
  const std::filesystem::path file = scratch / "clients.sqlite";
  constexpr std::chrono::seconds kLease(90);
  const std::chrono::sys_seconds now{};
  if (input.Octet() != 0) {
    {
      auto store = OpenRecoveryStore(file);
      if (!store || !(*store)->Begin(kLease, now)) Die("cannot make a database");
      for (const char* const owner : {"1one", "1two", "0three"}) (*store)->Record({owner, {}});
    }
    std::fstream octets(file, std::ios::binary | std::ios::in | std::ios::out);
    while (!input.empty()) {
      const int at = input.Octet() << 8 | input.Octet();
      octets.seekp(at);
      octets.put(static_cast<char>(input.Octet()));
    }
  } else {
    Write(file, Rest(input));
  }
  auto store = OpenRecoveryStore(file);
  if (!store && store.error().message.empty()) Die("refused without a word");
  if (!store) return;
  const auto begun = (*store)->Begin(kLease, now);
  if (!begun) return;
  if (begun->instance == 0 || begun->last_lease < Duration::zero()) Die("an impossible run");
  (*store)->Record({"1four", {}});
  (*store)->EndGrace();
}

void CheckKey(Input& input) {
  const Scratch scratch;
  const std::vector<std::byte> content = Rest(input);
  Write(scratch / "handle-key", content);
  if (fs::posix::LoadHandleKey(scratch.path()).has_value() != (content.size() == 16)) Die("a key of another length");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  switch (input.Octet() % 5) {
    case 0:
      CheckReply(input);
      break;
    case 1:
      CheckSession(input);
      break;
    case 2:
      CheckClients(input);
      break;
    case 4:
      CheckStreams(input);
      break;
    default:
      CheckKey(input);
  }
  return 0;
}
