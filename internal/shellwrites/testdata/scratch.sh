# Makes the repository in which every line of lines.txt is run: repo, its remote
# origin.git, and a second folder beside it.
set -e
export GIT_AUTHOR_DATE='2020-01-01T00:00:00Z' GIT_COMMITTER_DATE='2020-01-01T00:00:00Z'
cat >gitconfig <<'X'
[user]
	name = me
	email = me@example.com
[init]
	defaultBranch = main
[core]
	checkStat = minimal
	trustctime = false
[advice]
	detachedHead = false
[protocol "file"]
	allow = always
[gc]
	auto = 0
[alias]
	undo = checkout --
	wipe = !rm
[pull]
	rebase = false
X
mkdir other && echo far >other/far.txt
mkdir empty && export GIT_TEMPLATE_DIR=$PWD/empty
git init -q repo && cd repo
mkdir -p src/deep docs
printf 'alpha\nbeta\n' >src/a.txt
printf 'beta\ngamma\n' >src/b.txt
echo gamma >'src/c d.txt'
echo epsilon >src/deep/e.txt
printf '{ "a": 1 }\n' >src/d.json
echo '# x' >docs/x.md
echo '# y' >docs/y.md
printf 'src/a.txt\nsrc/b.txt\n' >list.txt
printf '*.log\nbuild/\n' >.gitignore
printf '#!/bin/sh\nsed -i s/alpha/omega/ src/a.txt\n' >run.sh
printf '#!/bin/sh\ncat src/a.txt\nwc -l "$@"\n' >look.sh
printf '#!/bin/bash\nremove() { rm "$1"; }\nremove "$1"\n' >rm.sh
printf 'F=src/b.txt\nwrite() { echo x >"$F"; }\n' >lib.sh
printf '{ print > "src/b.txt" }\n' >out.awk
printf 's/alpha/omega/\n' >edit.sed
printf '%%s/alpha/omega/\nwq\n' >edit.vim
printf '#!/usr/bin/env python3\nopen("src/a.txt")\n' >tool.py
chmod +x run.sh look.sh rm.sh tool.py
ln -s src link
ln -s src/a.txt alink
sqlite3 data.db 'create table t(x); insert into t values(1)'
git add . && git commit -qm first
git checkout -qb feature
printf 'alpha\nfeature\n' >src/a.txt && echo new >src/new.txt && git rm -q docs/y.md && git add . && git commit -qm feature
git format-patch -q -1 --stdout >../mail.patch
git checkout -qb side main
printf 'beta\nside\n' >src/b.txt && git commit -qam side
git checkout -qb topic main
echo topic >docs/topic.md && git add . && git commit -qm topic
git checkout -q main
printf 'alpha\nfixed\n' >src/a.txt && git diff >fix.patch && sed 's#[ab]/src#src#g' fix.patch >fix0.patch && git checkout -q src/a.txt
printf 'stashed\n' >src/b.txt && git stash -q
git clone -q --bare . ../origin.git
git remote add origin ../origin.git
git checkout -q --detach && echo ahead >docs/x.md && git commit -qam ahead && git push -q origin HEAD:main
git checkout -q main && git fetch -q origin && git branch -q --set-upstream-to=origin/main
git push -q origin topic:only-there && git fetch -q origin
mkdir pack && mkdir pack/src && echo packed >pack/src/a.txt && echo packed >pack/src/packed.txt
(cd pack && tar cf ../arc.tar src && tar czf ../arc.tgz src && zip -qr ../arc.zip src)
rm -r pack
mv ../mail.patch .
git add . && git commit -qm second
git repack -adq && git pack-refs --all && git -C ../origin.git repack -adq
echo unsaved >>src/deep/e.txt
mkdir build tmp
echo o >build/out.o
echo l >run.log
echo u >untracked.txt
echo u >tmp/u.txt
cd ..
find . -path ./origin.git -prune -o -path ./repo/.git -prune -o -exec touch -h -d 2020-01-01 {} +
cd repo && git update-index -q --refresh || true
