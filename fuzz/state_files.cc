// The files in a server's state directory: ours, damaged or of another program. The server must accept each file, or
// refuse it with a message. An accepted file must be usable.
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

namespace {

using namespace penstock;           // NOLINT: a program of its own
using namespace penstock::nfs::v4;  // NOLINT
using fuzz::Input;

[[noreturn]] void Die(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

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
  switch (input.Octet() % 4) {
    case 0:
      CheckReply(input);
      break;
    case 1:
      CheckSession(input);
      break;
    case 2:
      CheckClients(input);
      break;
    default:
      CheckKey(input);
  }
  return 0;
}
