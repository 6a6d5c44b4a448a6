# Guards one PostgreSQL server: makes missing data, runs the server, and stops it after its last
# user. The guard never outlives the server, and needs nothing but a POSIX shell.
#
# Standard input is the lifeline: a named pipe that every user holds open for writing. So the
# guard reads end of file when the last user ends, however that user ends.
#
#   FOLDER      holds the lifeline, the data and the first password; the account owns it
#   INITDB, POSTGRES   the programs; INITDB_SYNC is --no-sync for tests, otherwise empty
#   STOP        the signal that stops the server: INT is fast, QUIT immediate
#   SOCKETS, TEMPORARY   folders to remove at the end; empty for none
#   "$@"        the server's settings
set -u
cd "$FOLDER" || exit
# The whole group gets a signal. The shells ignore it, to see the server end.
trap '' HUP INT QUIT TERM

make_and_serve() {
    if [ ! -d data ]; then
        rm -rf data.new
        "$INITDB" -D "$FOLDER/data.new" -U firmforms -A scram-sha-256 --pwfile="$FOLDER/password" \
            -E UTF8 --locale=C ${INITDB_SYNC:+"$INITDB_SYNC"} || return
        mv data.new data || return
        # Commits from now on must be found under this name after a crash.
        [ -n "$INITDB_SYNC" ] || sync
    fi
    rm -f password
    exec "$POSTGRES" -D "$FOLDER/data" "$@"
}

stop_when_unused() {
    while :; do
        while read -r _; do :; done
        # From here on no process can join. A process that joined just before has written a line.
        mv lifeline closing
        read -r _ || break
        mv closing lifeline
    done
    # The signal is repeated, because a program that is just starting may miss one.
    while kill -s "$STOP" 0; do sleep 1; done
}

exec 3<&0 </dev/null
make_and_serve "$@" 3<&- &
server=$!
stop_when_unused <&3 3<&- &
exec 3<&-

wait "$server"
rm -rf lifeline closing password ${SOCKETS:+"$SOCKETS"} ${TEMPORARY:+"$TEMPORARY"}
# Ends the rest of the group, this shell included.
kill -s KILL 0
