{#-
    Land the changes that were committed in PostgreSQL since the last landing. First write the events of a replication slot into the change tables of
    models, in whole transactions. Then release the WAL of the slot. If the operation ends early, the next landing continues from the last landed
    transaction.

    Usage:
      dbt run-operation land_changes
      dbt run-operation land_changes --args '{model: my_mv}'
      dbt run-operation land_changes --args '{models: [my_mv, other_mv], batch_rows: 50000}'
      dbt run-operation land_changes --args '{slot: my_slot}'

    Arguments:
      model, models (string, list): the models whose change_feed names the slots to land. All models of these slots are landed.
      slot (string): the slot to land. Without model, models and slot, all slots of the project are landed.
      batch_rows (integer): the approximate number of events in a commit to the change table; 100,000 by default. A transaction is never divided.
      wal_warning_mb (integer): warn if a slot keeps at least this amount of WAL in the database; 1024 by default.
-#}
{% macro land_changes(model=none, models=none, slot=none, batch_rows=100000, wal_warning_mb=1024) -%}
    {%- set given = {'model': model, 'models': models, 'slot': slot, 'batch_rows': batch_rows, 'wal_warning_mb': wal_warning_mb} -%}
    {%- do dbt_backfill.check_arguments('land_changes', given, kwargs) -%}
    {%- if [model, models, slot] | reject('none') | list | length > 1 -%}
        {%- do dbt_backfill.refuse('more than one of the arguments model, models and slot is given',
            "Give one of them, or none to land all slots: --args '{model: my_mv}'", mv='land_changes', id='land-arguments') -%}
    {%- endif -%}
    {%- set names = dbt_backfill.as_list(model or models or []) -%}
    {%- set are_names = names and models is not mapping and not names | reject('string') | list -%}
    {%- do dbt_backfill.check_arguments('land_changes', given, [], {
        'slot': [slot is none or slot is string and slot, 'the name of a replication slot'],
        'model': [model is none or are_names, 'the name of one model'],
        'models': [models is none or are_names, 'a list of names of models'],
        'batch_rows': [batch_rows is integer and batch_rows >= 1, 'a whole number of 1 or more'],
        'wal_warning_mb': [wal_warning_mb is integer and wal_warning_mb >= 1, 'a whole number of 1 or more'],
    }) -%}
    {%- set wanted, all = [slot] if slot else [], dbt_backfill.get_landed_tables() -%}
    {%- for name in names -%}
        {%- set node = dbt_backfill.find_backfilled_mv(name, 'land_changes') -%}
        {%- set landed = all | selectattr('id', 'equalto', node.unique_id) | list -%}
        {%- if not landed -%}
            {%- do dbt_backfill.refuse("its change_feed does not set 'slot' with the format landed, so land_changes does not write its change table",
                "Set 'slot' in change_feed, if its upstream is a table of PostgreSQL and nothing else writes the change table", mv=name,
                id='land-other-format') -%}
        {%- endif -%}
        {%- do wanted.append(landed[0].slot) -%}
    {%- endfor -%}
    {%- set known, landings, change = all | map(attribute='slot') | unique | list, [], "Set 'slot' in the change_feed of a model" -%}
    {%- if not known and not wanted -%}
        {%- do dbt_backfill.refuse(
            "no model sets 'slot' in its change_feed", change ~ ' whose upstream is a table of PostgreSQL', mv='land_changes', id='land-no-slot') -%}
    {%- endif -%}
    {%- for slot in (wanted or known) | unique -%}
        {%- if slot not in known -%}
            {%- do dbt_backfill.refuse("no model sets 'slot' to " ~ slot ~ ' in its change_feed',
                change, mv='land_changes', id='land-unknown-slot') -%}
        {%- endif -%}
        {%- do landings.append(dbt_backfill.new_landing(slot, all)) -%}
    {%- endfor -%}
    {%- for landing in landings -%} {%- do dbt_backfill.run_landing(landing, given) -%} {%- endfor -%}
{%- endmacro %}
