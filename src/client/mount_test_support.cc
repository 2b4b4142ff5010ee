#include "client/mount_test_support.h"

#include <algorithm>
#include <array>
#include <span>

#include "base/bytes.h"

namespace penstock::client {

MountTestBase::~MountTestBase() {
  Unmount();
  workers.Join();
}

void MountTestBase::Unmount() {
  if (!mount) return;
  Run(mount->Unmount());
  TurnFor(loop, Duration::zero());
  mount.reset();
  TurnFor(loop, Duration::zero());
}

Url MountTestBase::UrlOf(Version version, std::string path) const {
  Url url;
  url.host = "127.0.0.1";
  url.port = service.port();
  url.mount_port = url.port;
  url.path = std::move(path);
  url.version = version;
  url.uid = url.gid = 0;
  url.reserved_port = false;
  url.recovery.timeout = 20;
  return url;
}

Result<std::unique_ptr<Mount>> MountTestBase::TryToOpen(const Url& url) {
  auto opened = Run(Mount::Open(loop, workers, url, options));
  TurnFor(loop, Duration::zero());
  return opened;
}

void MountTestBase::Open(const Url& url) {
  auto opened = TryToOpen(url);
  if (!opened) throw std::runtime_error(opened.error().message);
  mount = *std::move(opened);
}

Error MountTestBase::ErrorOfOpening(const Url& url) {
  auto opened = TryToOpen(url);
  if (!opened) return std::move(opened).error();
  mount = *std::move(opened);
  ADD_FAILURE() << "the mount was opened";
  return {};
}

void MountTestBase::Run(Task<void> task) {
  bool done = false;
  Spawn([](Task<void> inner, bool& flag) -> Task<void> {
    co_await std::move(inner);
    flag = true;
  }(std::move(task), done));
  EXPECT_TRUE(TurnUntil(loop, [&] { return done; }));
}

std::unique_ptr<File> MountTestBase::Create(std::string_view name, std::string_view text) {
  auto file = Do(mount->CreateFile(root(), name, 0644));
  if (!text.empty()) {
    EXPECT_TRUE(Write(*file, text));
  }
  return file;
}

std::unique_ptr<File> MountTestBase::OpenFile(std::string_view name, Access access) {
  return Do(mount->OpenFile(Do(mount->Lookup(root(), name)), name, access));
}

std::string MountTestBase::Read(File& file, size_t at_most) {
  std::string text(at_most, '\0');
  const auto read = Do(file.Read(0, std::as_writable_bytes(std::span(text))));
  text.resize(read.count);
  return text;
}

Result<File::WriteReply> MountTestBase::Write(File& file, std::string_view text, uint64_t offset) {
  return Run(file.Write(offset, AsBytes(text)));
}

std::vector<std::string> MountTestBase::List() {
  std::vector<std::string> names;
  Do(mount->List(root(), "/", [&names](const Entry& entry) { names.push_back(entry.name); }));
  std::ranges::sort(names);
  return names;
}

std::string NameOf(Version version) {
  constexpr std::array<const char*, 4> kNames = {"3", "40", "41", "42"};
  return kNames[static_cast<size_t>(version)];
}

}  // namespace penstock::client
