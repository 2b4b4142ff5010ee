// The procedures of NFSv2 (RFC 1094 §2.2), one function each. Arguments are the types of protocol/nfs2.x; views in them
// are valid during the call. A function returns the part of the reply that follows NFS_OK, or the error. With kDelay it
// has done nothing, and is called again (nfs/patience.h). NULL, ROOT and WRITECACHE do nothing: program.cc.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/task.h"
#include "nfs/v2/request.h"
#include "protocol/nfs2.h"

namespace penstock::nfs::v2 {

template <class T>
using Reply = Task<fs::Result<T>>;

// attributes.cc
Reply<nfs2::fattr> GetAttributes(Request request, const nfs2::fhandle& file);
Reply<nfs2::fattr> SetAttributes(Request request, const nfs2::sattrargs& arguments);
Reply<nfs2::statfsok> FileSystemStatus(Request request, const nfs2::fhandle& object);

// lookup.cc
Reply<nfs2::diropok> Lookup(Request request, const nfs2::diropargs& arguments);
Reply<xdr::Payload<nfs2::NFS_MAXPATHLEN>> ReadLink(Request request, const nfs2::fhandle& symlink);

// read_write.cc
Reply<nfs2::readok> Read(Request request, const nfs2::readargs& arguments);
Reply<nfs2::fattr> Write(Request request, const nfs2::writeargs& arguments);

// create.cc
Reply<nfs2::diropok> Create(Request request, const nfs2::createargs& arguments);
Reply<nfs2::diropok> MakeDirectory(Request request, const nfs2::createargs& arguments);
Reply<void> MakeSymlink(Request request, const nfs2::symlinkargs& arguments);

// remove.cc
Reply<void> Remove(Request request, const nfs2::diropargs& arguments);
Reply<void> RemoveDirectory(Request request, const nfs2::diropargs& arguments);
Reply<void> Rename(Request request, const nfs2::renameargs& arguments);
Reply<void> Link(Request request, const nfs2::linkargs& arguments);

// directory.cc. The names own their memory, other than in readdirok.
struct Listing {
  struct Entry {
    uint32_t fileid;
    std::string name;
    nfs2::nfscookie cookie;
  };
  std::vector<Entry> entries;
  bool eof = false;
};
Reply<Listing> ReadDirectory(Request request, const nfs2::readdirargs& arguments);

}  // namespace penstock::nfs::v2
