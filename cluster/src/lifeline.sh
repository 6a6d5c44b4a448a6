# Guards one PostgreSQL server: makes its data if there is none yet, runs it, and stops it when its
# last user has gone. Must not outlive the server, and must not need more than a POSIX shell.
#
# Standard input is the lifeline: a named pipe that every user holds open for writing, so that it
# ends when the last of them ends, however it ends.
#
#   FOLDER      where the lifeline, the data and the first password are; the account owns it
#   INITDB, POSTGRES   the programs; INITDB_SYNC is --no-sync for tests, otherwise empty
#   STOP        the signal that stops the server: INT is fast, QUIT immediate
#   SOCKETS, TEMPORARY   folders to remove at the end; empty for none
#   "$@"        the server's settings
set -u
cd "$FOLDER" || exit
# The group is signalled as a whole; the shells in it stay, to see it end.
trap '' HUP INT QUIT TERM

make_and_serve() {
    if [ ! -d data ]; then
        rm -rf data.new
        "$INITDB" -D "$FOLDER/data.new" -U firmforms -A scram-sha-256 --pwfile="$FOLDER/password" \
            -E UTF8 --locale=C ${INITDB_SYNC:+"$INITDB_SYNC"} || return
        mv data.new data || return
        # What is committed from now on must be found under this name after a crash.
        [ -n "$INITDB_SYNC" ] || sync
    fi
    rm -f password
    exec "$POSTGRES" -D "$FOLDER/data" "$@"
}

stop_when_unused() {
    while :; do
        while read -r _; do :; done
        # From here on nobody can join. Whoever did just before has written a line.
        mv lifeline closing
        read -r _ || break
        mv closing lifeline
    done
    # Again and again: a program that is just being started may miss one.
    while kill -s "$STOP" 0; do sleep 1; done
}

exec 3<&0 </dev/null
make_and_serve "$@" 3<&- &
server=$!
stop_when_unused <&3 3<&- &
exec 3<&-

wait "$server"
rm -rf lifeline closing password ${SOCKETS:+"$SOCKETS"} ${TEMPORARY:+"$TEMPORARY"}
# Everything that may be left of the group, the watcher and this shell among it.
kill -s KILL 0
