// For tests: a read-only file system with a root directory and one file.
#pragma once

#include <string>
#include <string_view>

#include "base/bytes.h"
#include "fs/read_only_file_system.h"

namespace penstock::fs {

// The file is called "file". It has seven octets, mode 0644 and the owner 7. The methods that a derived class supplies
// and no test needs are kNotSupported.
class OneFile final : public ReadOnlyFileSystem {
 public:
  Handle Root() const override { return *Handle::FromBytes(AsBytes("root")); }
  Handle file() const { return *Handle::FromBytes(AsBytes("file")); }

  Result<Identity> Identify(const Handle& object) const override { return Identity{1, object}; }
  Task<Result<Attributes>> GetAttributes(const RequestContext&, const Handle& object) override {
    if (object == Root()) co_return OfRoot();
    if (object == file()) co_return OfFile();
    co_return std::unexpected(Error::kStale);
  }
  Task<Observed<Node>> Lookup(const RequestContext&, const Handle&, std::string_view name) override {
    if (name != "file") co_return Observed<Node>{std::unexpected(Error::kNoEnt), OfRoot()};
    const Node node{.handle = file(), .attributes = OfFile()};
    co_return Observed<Node>{node, OfRoot()};
  }
  Task<Observed<std::string>> ReadLink(const RequestContext&, const Handle&) override {
    co_return Observed<std::string>{std::unexpected(Error::kNotSupported), {}};
  }
  Task<Observed<ReadReply>> Read(const RequestContext&, const Handle&, uint64_t, uint32_t) override {
    co_return Observed<ReadReply>{std::unexpected(Error::kNotSupported), {}};
  }
  Task<Observed<ReadDirectoryReply>> ReadDirectory(const RequestContext&, const Handle&, const ReadDirectoryArguments&,
                                                   EntrySink&) override {
    co_return Observed<ReadDirectoryReply>{std::unexpected(Error::kNotSupported), {}};
  }

 private:
  static Attributes OfRoot() {
    Attributes attributes;
    attributes.type = FileType::kDirectory;
    attributes.mode = 0777;
    return attributes;
  }
  static Attributes OfFile() {
    Attributes attributes;
    attributes.mode = 0644;
    attributes.uid = 7;
    attributes.size = 7;
    attributes.change = 5;
    return attributes;
  }
};

}  // namespace penstock::fs
