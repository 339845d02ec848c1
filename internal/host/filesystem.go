package host

import (
	"fmt"
	"strings"
)

// Locks and shared memory work when one kernel handles them for all processes
// that can reach the files. A file system whose files another machine, or a
// process in between, can also change is unsafe. The decisions below are pure,
// so that every system's can be tested on any.

// kind is one row of the Linux table.
type kind struct {
	name string
	safe bool
}

// linuxKinds maps f_type of statfs(2). ext2, ext3 and ext4 share a number, as
// do all FUSE file systems, virtiofs among them.
var linuxKinds = map[uint32]kind{
	0x00006969: {"nfs", false},
	0x0000517b: {"smb", false},
	0xff534d42: {"cifs", false},
	0xfe534d42: {"smb2", false},
	0x01021997: {"9p", false},
	0x65735546: {"fuse", false},
	0x00c36400: {"ceph", false},
	0x5346414f: {"afs", false},
	0x6b414653: {"afs", false}, // the kernel's own client
	0x73757245: {"coda", false},
	0x0bd00bd0: {"lustre", false},
	0x47504653: {"gpfs", false},
	0x786f4256: {"vboxsf", false},
	0xbacbacbc: {"vmhgfs", false},
	0x7c7c6673: {"prl_fs", false},
	0x7461636f: {"ocfs2", false},
	0x01161970: {"gfs2", false},
	0x0000564c: {"ncp", false},
	0x20030528: {"orangefs", false},
	0x19830326: {"beegfs", false},
	0xaad7aaea: {"panfs", false},
	0xbeefdead: {"snfs", false},
	0x61636673: {"acfs", false},

	0x0000ef53: {"ext", true},
	0x58465342: {"xfs", true},
	0x9123683e: {"btrfs", true},
	0x01021994: {"tmpfs", true},
	0x858458f6: {"ramfs", true},
	0x794c7630: {"overlay", true},
	0x61756673: {"aufs", true},
	0x2fc12fc1: {"zfs", true},
	0xf2f52010: {"f2fs", true},
	0xca451a4e: {"bcachefs", true},
	0x3153464a: {"jfs", true},
	0x52654973: {"reiserfs", true},
	0x00003434: {"nilfs2", true},
	0x24051905: {"ubifs", true},
	0x0000f15f: {"ecryptfs", true},
	0x00004d44: {"vfat", true},
	0x2011bab0: {"exfat", true},
	0x7366746e: {"ntfs3", true},
	0x0000482b: {"hfsplus", true},
	0x53464846: {"wslfs", true},
}

// linuxFileSystem trusts a number it has never seen: new local file systems
// appear more often than new remote ones, and refusing to work at all is the
// worse surprise. The name shows the number so that a report can be acted on.
func linuxFileSystem(magic uint32) (name string, safe bool) {
	if k, ok := linuxKinds[magic]; ok {
		return k.name, k.safe
	}
	return fmt.Sprintf("unknown (0x%x)", magic), true
}

// darwinFileSystem judges by name; local is what the kernel says of the mount
// (MNT_LOCAL), which is also true of many file systems served by a process or
// by the host of a virtual machine.
func darwinFileSystem(name string, local bool) (safe bool) {
	switch name = strings.ToLower(name); name {
	case "nfs", "smbfs", "afpfs", "webdav", "cifs", "ftp", "9p", "acfs", "vmhgfs", "prl_fs", "vboxsf":
		return false
	}
	return local && !strings.Contains(name, "fuse") && !strings.Contains(name, "virtio")
}
